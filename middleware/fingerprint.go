package middleware

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
)

// unlike are the headers that differ between requests that are equal. Most tell one
// attempt from another, or say how a request came.
var unlike = map[string]bool{
	"Date": true, "User-Agent": true, "Content-Length": true, "Idempotency-Key": true,

	"Traceparent": true, "Tracestate": true, "B3": true, "Uber-Trace-Id": true,
	"Sentry-Trace": true, "X-Amzn-Trace-Id": true, "X-Cloud-Trace-Context": true,
	"Request-Id": true, "X-Request-Id": true, "X-Correlation-Id": true, "X-Amz-Cf-Id": true, "Cf-Ray": true,
	"X-Request-Start": true, "X-Queue-Start": true, "X-Envoy-Attempt-Count": true,
}

var unlikePrefixes = []string{"X-B3-", "X-Datadog-", "X-Stainless-"}

func differs(header string) bool {
	return unlike[header] || slices.ContainsFunc(unlikePrefixes, func(p string) bool { return strings.HasPrefix(header, p) })
}

// Fingerprint is what [WithFingerprint] replaces: requests with the same one ask for the
// same. It is a SHA-256 over the URL as it was sent and as it is, the host without its port,
// the body, the client's certificate, and all headers but those that differ between equal
// requests:
//
//   - Date, User-Agent, Content-Length and Idempotency-Key;
//   - Traceparent, Tracestate, B3, X-B3-…, Uber-Trace-Id, Sentry-Trace,
//     X-Datadog-…, X-Amzn-Trace-Id, X-Cloud-Trace-Context;
//   - Request-Id, X-Request-Id, X-Correlation-Id, X-Amz-Cf-Id, Cf-Ray;
//   - X-Request-Start, X-Queue-Start, X-Envoy-Attempt-Count, X-Stainless-….
//
// What else tells one user from another has to be in the key, or in a fingerprint of
// your own: a user that a handler further out has put into the context, the address of
// the client. Two clicks with an Idempotency-Key each are equal: where a client means two
// things by the same words, put that in, too.
func Fingerprint(r *http.Request, body []byte) (string, error) {
	d := make(digest, 0, 1<<10)
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	d.add(host, r.RequestURI, r.URL.EscapedPath(), r.URL.RawQuery, sum(body))
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		d.add("certificate", sum(r.TLS.PeerCertificates[0].Raw))
	}
	names := make([]string, 0, len(r.Header))
	for name := range r.Header {
		if !differs(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		d.add(name)
		d.add(r.Header[name]...)
	}
	return d.text(), nil
}

// identity is equal only for requests that may have the same response, whatever the
// fingerprint says: it never spans keys, methods or origins, whose CORS headers are their
// own.
func identity(key string, r *http.Request, fingerprint string) string {
	d := make(digest, 0, 256)
	d.add(key, r.Method, fingerprint)
	d.add(r.Header["Origin"]...)
	return d.text()
}

// A digest is of lists of strings, told apart from all other lists.
type digest []byte

func (d *digest) add(list ...string) {
	*d = binary.BigEndian.AppendUint64(*d, uint64(len(list)))
	for _, s := range list {
		*d = binary.BigEndian.AppendUint64(*d, uint64(len(s)))
		*d = append(*d, s...)
	}
}

func (d digest) text() string { return base64.RawURLEncoding.EncodeToString([]byte(sum(d))) }

// sum stands for what may be long.
func sum(p []byte) string {
	s := sha256.Sum256(p)
	return string(s[:])
}

// WithFingerprint sets what tells requests of the same key, method and origin apart that
// may not share a response. The default is [Fingerprint].
//
// f is called once a request, concurrently, with the whole body, which it must not change.
// An error of it is answered like one of the key function. It does nothing without
// [WithJoin].
//
// One that adds to the default rather than replaces it:
//
//	func(r *http.Request, body []byte) (string, error) {
//		user, err := ginlock.Value("user")(r)
//		if err != nil {
//			return "", err
//		}
//		rest, err := middleware.Fingerprint(r, body)
//		return user + " " + rest, err
//	}
func WithFingerprint(f func(r *http.Request, body []byte) (string, error)) Option {
	return func(c *config) error {
		c.fingerprint = f
		if f == nil {
			return errors.New("middleware: WithFingerprint: the function is nil")
		}
		return nil
	}
}
