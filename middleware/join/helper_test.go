package join_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for what is to come at once.
const patience = 5 * time.Second

// eachProtocol runs a test with a server of HTTP/1 and one of HTTP/2.
func eachProtocol(t *testing.T, test func(t *testing.T, p setup)) {
	t.Run("HTTP1", func(t *testing.T) { test(t, setup{}) })
	t.Run("HTTP2", func(t *testing.T) { test(t, setup{http2: true}) })
}

// setup says what a site is like.
type setup struct {
	http2   bool
	sharer  []join.Option
	guard   []middleware.Option
	key     keyfuncs.Func                   // nil: the header X-User
	outside func(http.Handler) http.Handler // a middleware around the guard; nil: none
	inside  func(http.Handler) http.Handler // one around the handler
	handler http.HandlerFunc                // nil: the test has its calls from next
	start   func(*httptest.Server)          // changes the server before it starts
}

// A site is a server with a guarded handler, which does what the test tells it to.
type site struct {
	*httptest.Server
	t      *testing.T
	sharer *join.Sharer
	locks  *locks
	guard  *middleware.Guard
	calls  chan *call
	over   chan struct{}
}

func serve(t *testing.T, p setup) *site {
	t.Helper()
	s := &site{t: t, sharer: join.New(nil, p.sharer...), locks: &locks{Locker: memlock.New()}, calls: make(chan *call), over: make(chan struct{})}
	if p.key == nil {
		p.key = keyfuncs.Header("X-User")
	}
	opts := append([]middleware.Option{middleware.WithJoin(s.sharer), middleware.WithWait(time.Minute)}, p.guard...)
	var err error
	s.guard, err = middleware.NewGuard(s.locks, p.key, opts...)
	require.NoError(t, err)
	var h http.Handler = http.HandlerFunc(s.obey)
	if p.handler != nil {
		h = p.handler
	}
	if p.inside != nil {
		h = p.inside(h)
	}
	h = httplock.Wrap(s.guard)(h)
	if p.outside != nil {
		h = p.outside(h)
	}
	s.Server = startServer(t, p, h)
	t.Cleanup(func() { close(s.over) }) // before the server, which waits for its handlers
	return s
}

func startServer(t *testing.T, p setup, h http.Handler) *httptest.Server {
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if p.start != nil {
		p.start(server)
	}
	if p.http2 {
		server.EnableHTTP2 = true
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

// watched waits until so many requests are there whose response may be joined.
func (s *site) watched(n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.sharer.Viewers() == n }, patience, time.Millisecond, "%d viewers", n)
}

// request returns one of user u.
func (s *site) request(method, path, body string) *http.Request {
	s.t.Helper()
	r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("X-User", "u")
	return r
}

// get returns the request that most tests make. name tells clients apart for the test
// only.
func (s *site) get(name string) *http.Request {
	r := s.request(http.MethodGet, "/", "")
	r.Header.Set("User-Agent", name)
	return r
}

// lead sends a request, and returns the call of the handler that it makes.
func (s *site) lead(r *http.Request) (*visitor, *call) {
	s.t.Helper()
	v := s.send(r)
	return v, s.next()
}

// join sends get n times, beside the one that is there, and returns when all are there.
func (s *site) join(n int) []*visitor {
	s.t.Helper()
	all := make([]*visitor, n)
	before := s.sharer.Viewers()
	for i := range all {
		all[i] = s.send(s.get("follower"))
	}
	s.watched(before + n)
	return all
}

// works sends a request that is to be answered by a handler of its own.
func (s *site) works() {
	s.t.Helper()
	v, c := s.lead(s.get("another"))
	c.write("works")
	c.end()
	require.Equal(s.t, "works", v.whole())
}

// locks knows how many requests wait for a key.
type locks struct {
	lock.Locker
	waiting atomic.Int32
}

func (l *locks) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	if o.Wait > 0 {
		l.waiting.Add(1)
		defer l.waiting.Add(-1)
	}
	return l.Locker.Acquire(ctx, key, o)
}

// hold has user u's key held, until the function is called.
func (s *site) hold() (release func()) {
	s.t.Helper()
	lease, err := s.locks.Locker.Acquire(s.t.Context(), "u", lock.Options{})
	require.NoError(s.t, err)
	return func() { require.NoError(s.t, lease.Release(context.WithoutCancel(s.t.Context()))) }
}

// queued waits until so many requests wait for the key.
func (s *site) queued(n int32) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.locks.waiting.Load() == n }, patience, time.Millisecond, "%d wait for the key", n)
}

// smallBuffers has as little as can be on its way to clients of HTTP/1.
func smallBuffers(server *httptest.Server) {
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(64 << 10)
		}
		return ctx
	}
}

// slowClient returns a client that takes little that is not read.
func (s *site) slowClient() *http.Client {
	t := s.Client().Transport.(*http.Transport).Clone()
	t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 64 << 10}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = c.(*net.TCPConn).SetReadBuffer(64 << 10)
		}
		return c, err
	}
	s.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}
