package middleware_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware"
)

func fingerprint(t *testing.T, r *http.Request, body string) string {
	t.Helper()
	f, err := middleware.Fingerprint(r, []byte(body))
	require.NoError(t, err)
	require.NotEmpty(t, f)
	return f
}

func TestH35_WhatIsInTheFingerprint(t *testing.T) {
	header := func(name string, lines ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = lines }
	}
	certificate := func(raw string) func(*http.Request) {
		return func(r *http.Request) {
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte(raw)}, {Raw: []byte("CA")}}}
		}
	}
	nothing := func(*http.Request) {}
	const target = "/path?q=1"
	tests := []struct {
		name    string
		targets [2]string
		bodies  [2]string
		a, b    func(*http.Request)
		equal   bool
	}{
		{"the same", [2]string{target, target}, [2]string{"body", "body"}, nothing, nothing, true},
		{"path", [2]string{"/path", "/other"}, [2]string{}, nothing, nothing, false},
		{"escaped path", [2]string{"/a%2Fb", "/a/b"}, [2]string{}, nothing, nothing, false},
		{"query", [2]string{"/path?q=1", "/path?q=2"}, [2]string{}, nothing, nothing, false},
		{"order of the query", [2]string{"/path?a=1&b=2", "/path?b=2&a=1"}, [2]string{}, nothing, nothing, false},
		{"path or query", [2]string{"/path?q", "/pathq"}, [2]string{}, nothing, nothing, false},
		{"body", [2]string{target, target}, [2]string{"body", "bodY"}, nothing, nothing, false},
		{"query or body", [2]string{"/path?ab", "/path?a"}, [2]string{"", "b"}, nothing, nothing, false},
		{"custom header", [2]string{target, target}, [2]string{}, header("X-Tenant", "a"), header("X-Tenant", "b"), false},
		{"without a header", [2]string{target, target}, [2]string{}, header("X-Tenant", ""), nothing, false},
		{"Authorization", [2]string{target, target}, [2]string{}, header("Authorization", "Bearer a"), header("Authorization", "Bearer b"), false},
		{"Cookie", [2]string{target, target}, [2]string{}, header("Cookie", "a=1"), header("Cookie", "a=2"), false},
		{"Accept-Encoding", [2]string{target, target}, [2]string{}, header("Accept-Encoding", "gzip"), nothing, false},
		{"lines of a header", [2]string{target, target}, [2]string{}, header("X-A", "a", "b"), header("X-A", "ab"), false},
		{"line or name", [2]string{target, target}, [2]string{}, header("X-A", "b", "X-C"), header("X-A", "b"), false},
		{"Baggage", [2]string{target, target}, [2]string{}, header("Baggage", "user=a"), header("Baggage", "user=b"), false},
		{"host", [2]string{"http://a.example/", "http://b.example/"}, [2]string{}, func(r *http.Request) { r.RequestURI = "/" }, func(r *http.Request) { r.RequestURI, r.Host = "/", "b.example" }, false},
		{"URL before a prefix was stripped", [2]string{target, target}, [2]string{}, func(r *http.Request) { r.RequestURI = "/a" + target }, func(r *http.Request) { r.RequestURI = "/b" + target }, false},
		{"client certificate", [2]string{target, target}, [2]string{}, certificate("a"), certificate("b"), false},
		{"no client certificate", [2]string{target, target}, [2]string{}, certificate("a"), nothing, false},
		{"the same certificate", [2]string{target, target}, [2]string{}, certificate("a"), certificate("a"), true},
	}
	for _, name := range []string{
		"Date", "User-Agent", "Content-Length", "Idempotency-Key",
		"Traceparent", "Tracestate", "B3", "X-B3-Traceid", "Uber-Trace-Id", "Sentry-Trace",
		"X-Datadog-Trace-Id", "X-Amzn-Trace-Id", "X-Cloud-Trace-Context", "Request-Id", "X-Request-Id",
		"X-Correlation-Id", "X-Amz-Cf-Id", "Cf-Ray", "X-Request-Start", "X-Queue-Start",
		"X-Envoy-Attempt-Count", "X-Stainless-Retry-Count",
	} {
		tests = append(tests, struct {
			name    string
			targets [2]string
			bodies  [2]string
			a, b    func(*http.Request)
			equal   bool
		}{name, [2]string{target, target}, [2]string{}, header(name, "a"), header(name, "b"), true})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := httptest.NewRequest(http.MethodPost, tt.targets[0], nil), httptest.NewRequest(http.MethodPost, tt.targets[1], nil)
			a.Host, b.Host = "example:1", "example:2"
			tt.a(a)
			tt.b(b)
			if tt.equal {
				require.Equal(t, fingerprint(t, a, tt.bodies[0]), fingerprint(t, b, tt.bodies[1]))
			} else {
				require.NotEqual(t, fingerprint(t, a, tt.bodies[0]), fingerprint(t, b, tt.bodies[1]))
			}
		})
	}
}
