package middleware_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var user = keyfuncs.Header("X-User-ID")

// stub is a Locker that answers every Acquire alike and remembers what it was
// last given. It is for one request at a time.
type stub struct {
	err      error
	asked    bool
	options  lock.Options
	released context.Context
}

func (s *stub) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	s.asked, s.options = true, o
	if s.err != nil {
		return nil, s.err
	}
	return &stubLease{stub: s, ctx: ctx, key: key}, nil
}

func (s *stub) Interrupt(context.Context, string) (bool, error) { return false, s.err }

type stubLease struct {
	stub *stub
	ctx  context.Context
	key  string
}

func (l *stubLease) Key() string              { return l.key }
func (l *stubLease) Fence() uint64            { return 0 }
func (l *stubLease) Context() context.Context { return l.ctx }

func (l *stubLease) Release(ctx context.Context) error {
	l.stub.released = ctx
	return nil
}

func newGuard(t testing.TB, l lock.Locker, opts ...middleware.Option) *middleware.Guard {
	t.Helper()
	g, err := middleware.NewGuard(l, user, opts...)
	require.NoError(t, err)
	return g
}

// A protocol is a way for a response to reach its client.
type protocol struct {
	name  string
	http2 bool
	other bool // through a writer that is not net/http's
}

var (
	http1     = protocol{name: "HTTP1"}
	protocols = []protocol{http1, {name: "HTTP2", http2: true}, {name: "other", other: true}}
)

// serve starts a real server.
func serve(t testing.TB, p protocol, h http.Handler) *httptest.Server {
	t.Helper()
	if p.other {
		inner := h
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inner.ServeHTTP(otherWriter{w}, r) })
	}
	srv := httptest.NewUnstartedServer(h)
	if p.http2 {
		srv.EnableHTTP2 = true
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return srv
}

func guarded(t *testing.T, p protocol, g *middleware.Guard, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	return serve(t, p, wrap(g, h))
}

func wrap(g *middleware.Guard, h http.HandlerFunc) http.Handler { return httplock.Wrap(g)(h) }

// otherWriter is what a middleware further out may put around the writer of
// net/http.
type otherWriter struct{ http.ResponseWriter }

func (w otherWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
func (w otherWriter) Flush()                      { w.ResponseWriter.(http.Flusher).Flush() }
func (w otherWriter) FlushError() error           { w.Flush(); return nil }

func (w otherWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.ResponseWriter.(http.Hijacker).Hijack()
}

func (w otherWriter) ReadFrom(src io.Reader) (int64, error) {
	return w.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
}

func (w otherWriter) WriteString(s string) (int, error) {
	return io.WriteString(w.ResponseWriter, s)
}

// request is one of user u1.
func request(t testing.TB, method, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	r.Header.Set("X-User-ID", "u1")
	return r
}

// requireFree fails unless the key of user u1 can be had at once.
func requireFree(t *testing.T, l lock.Locker) {
	t.Helper()
	lease, err := l.Acquire(t.Context(), "u1", lock.Options{})
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))
}

func nothing(http.ResponseWriter, *http.Request) {}
