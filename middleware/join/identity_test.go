package join_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
)

// apart requires that the second of two requests has a handler of its own, as both are in
// flight. The first one has been sent.
func (s *site) apart(first *visitor, c *call, second *visitor) {
	s.t.Helper()
	s.watched(2)
	c.do(say("first"))
	c.end()
	assert.NotContains(s.t, first.whole(), "second")
	assert.NotEqual(s.t, "joined", first.role())
	c = s.next()
	c.do(say("second"))
	c.end()
	assert.NotContains(s.t, second.whole(), "first")
	assert.Equal(s.t, "second", second.head().Header.Get("X-Answer"))
	assert.NotEqual(s.t, "joined", second.role())
}

// together requires that both have the response to the first.
func (s *site) together(first *visitor, c *call, second *visitor) {
	s.t.Helper()
	s.watched(2)
	c.do(say("first"))
	c.end()
	assert.Equal(s.t, []string{"first", "first"}, readAll([]*visitor{first, second}))
	assert.Equal(s.t, "joined", second.role())
}

func say(text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Answer", text)
		_, _ = w.Write([]byte(text))
	}
}

func set(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

func TestH35WhatTellsRequestsApart(t *testing.T) {
	tests := []struct {
		name   string
		differ func(r *http.Request)
	}{
		{"HEAD and GET", func(r *http.Request) { r.Method = http.MethodHead }},
		{"GET and POST", func(r *http.Request) { r.Method = http.MethodPost }},
		{"host", func(r *http.Request) { r.Host = "other.example" }},
		{"Baggage", set("Baggage", "user=2")},
		{"path", func(r *http.Request) { r.URL.Path = "/b" }},
		{"escaped path", func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/a/b", "/a%2Fb" }},
		{"query", func(r *http.Request) { r.URL.RawQuery = "q=1" }},
		{"key", set("X-User", "v")},
		{"credentials", set("Authorization", "Bearer b")},
		{"cookie", set("Cookie", "session=b")},
		{"a header of one's own", set("X-Tenant", "b")},
		{"an empty header", set("X-Tenant", "")},
		{"lines of a header", set("X-Lines", "a", "b")},
		{"what is accepted", set("Accept", "text/event-stream")},
		{"encoding", set("Accept-Encoding", "gzip")},
		{"language", set("Accept-Language", "de")},
		{"type of the body", set("Content-Type", "text/plain")},
		{"origin", set("Origin", "https://b.example")},
	}
	eachProtocol(t, func(t *testing.T, p setup) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				s := serve(t, p)
				base := func() *http.Request {
					r := s.request(http.MethodGet, "/a", "")
					r.Header.Set("X-Lines", "a, b")
					r.Header.Set("Accept-Encoding", "identity")
					return r
				}
				first, c := s.lead(base())
				other := base()
				tt.differ(other)
				s.apart(first, c, s.send(other))
			})
		}
	})
}

func TestH35HeadDoesNotAnswerGet(t *testing.T) {
	s := serve(t, setup{})
	request := func(method string) *http.Request {
		r := s.request(method, "/", "")
		r.Header.Set("Accept-Encoding", "identity") // net/http asks for gzip with GET only
		return r
	}
	head, c := s.lead(request(http.MethodHead))
	s.apart(head, c, s.send(request(http.MethodGet)))
}

func TestDifferentBodiesAreApart(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		for _, other := range []string{"prompt B", "prompt ", "prompt AA", ""} {
			t.Run(other, func(t *testing.T) {
				s := serve(t, p)
				first, c := s.lead(s.request(http.MethodPost, "/", "prompt A"))
				s.apart(first, c, s.send(s.request(http.MethodPost, "/", other)))
			})
		}
	})
}

// What only tells one attempt from another, or how it came, does not tell requests apart.
func TestWhatDoesNotTellRequestsApart(t *testing.T) {
	headers := []string{
		"Date", "User-Agent", "Idempotency-Key", "Traceparent", "Tracestate", "B3", "X-B3-TraceId",
		"Uber-Trace-Id", "Sentry-Trace", "X-Datadog-Trace-Id", "X-Amzn-Trace-Id", "X-Cloud-Trace-Context", "Request-Id",
		"X-Request-Id", "X-Correlation-Id", "X-Amz-Cf-Id", "Cf-Ray", "X-Request-Start", "X-Queue-Start",
		"X-Envoy-Attempt-Count", "X-Stainless-Retry-Count", "X-Stainless-Runtime-Version",
	}
	eachProtocol(t, func(t *testing.T, p setup) {
		for _, name := range headers {
			t.Run(name, func(t *testing.T) {
				s := serve(t, p)
				request := func(value string) *http.Request {
					r := s.request(http.MethodPost, "/", "prompt")
					r.Header.Set(name, value)
					return r
				}
				first, c := s.lead(request("a"))
				s.together(first, c, s.send(request("b")))
			})
		}
		t.Run("port", func(t *testing.T) {
			s := serve(t, p)
			first, c := s.lead(s.get(""))
			other := s.get("")
			other.Host = "127.0.0.1:1"
			s.together(first, c, s.send(other))
		})
	})
}

type userKey struct{}

// signIn puts the user into the request's context only: User-Agent stands for what others
// go by.
func signIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, r.UserAgent())))
	})
}

func TestWithFingerprint(t *testing.T) {
	byUser := middleware.WithFingerprint(func(r *http.Request, body []byte) (string, error) {
		rest, err := middleware.Fingerprint(r, body)
		return r.Context().Value(userKey{}).(string) + " " + rest, err
	})
	p := setup{outside: signIn, guard: []middleware.Option{byUser}}
	t.Run("users of a context are apart", func(t *testing.T) {
		s := serve(t, p)
		first, c := s.lead(s.get("ann"))
		s.apart(first, c, s.send(s.get("bob")))
	})
	t.Run("a user's own are together", func(t *testing.T) {
		s := serve(t, p)
		first, c := s.lead(s.get("ann"))
		s.together(first, c, s.send(s.get("ann")))
	})
	same := middleware.WithFingerprint(func(*http.Request, []byte) (string, error) { return "", nil })
	for name, differ := range map[string]func(*http.Request){
		"key":    set("X-User", "v"),
		"method": func(r *http.Request) { r.Method = http.MethodDelete },
		"origin": set("Origin", "https://b.example"),
	} {
		t.Run("whatever it says apart by "+name, func(t *testing.T) {
			s := serve(t, setup{guard: []middleware.Option{same}})
			first, c := s.lead(s.get(""))
			other := s.get("")
			differ(other)
			s.apart(first, c, s.send(other))
		})
	}
	t.Run("an error is answered", func(t *testing.T) {
		failing := middleware.WithFingerprint(func(*http.Request, []byte) (string, error) { return "", keyfuncs.ErrMissing })
		s := serve(t, setup{guard: []middleware.Option{failing}})
		assert.Equal(t, http.StatusBadRequest, s.send(s.get("")).head().StatusCode)
	})
	t.Run("has the whole body", func(t *testing.T) {
		byBody := middleware.WithFingerprint(func(r *http.Request, body []byte) (string, error) { return string(body), nil })
		s := serve(t, setup{guard: []middleware.Option{byBody}})
		first, c := s.lead(s.request(http.MethodPost, "/a", "prompt"))
		s.together(first, c, s.send(s.request(http.MethodPost, "/b", "prompt")))
	})
}
