package ginlock_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	gin.DefaultErrorWriter = io.Discard // what gin.Recovery logs
	goleak.VerifyTestMain(m)
}

var user = keyfuncs.Header("X-User-ID")

// losable is memlock with leases that a test can end as a lost one ends.
type losable struct{ *memlock.Locker }

func (l losable) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	lease, err := l.Locker.Acquire(ctx, key, o)
	if err != nil {
		return nil, err
	}
	s := &losableLease{Lease: lease}
	s.ctx, s.end = context.WithCancelCause(lease.Context())
	s.ctx = lock.NewContext(s.ctx, s)
	return s, nil
}

type losableLease struct {
	lock.Lease
	ctx context.Context
	end context.CancelCauseFunc
}

func (l *losableLease) Context() context.Context { return l.ctx }

func lose(c *gin.Context, cause error) {
	lease, _ := lock.From(c.Request.Context())
	lease.(*losableLease).end(cause)
}

// events is an Observer that keeps what it is told.
type events struct {
	mu  sync.Mutex
	all []lock.Event
}

func (e *events) observe(_ context.Context, event lock.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

func (e *events) seen() []lock.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]lock.Event(nil), e.all...)
}

// awaitReleased waits until a handler has returned and its key is free.
func (e *events) awaitReleased(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, event := range e.seen() {
			if _, ok := event.(lock.Released); ok {
				return true
			}
		}
		return false
	}, 10*time.Second, time.Millisecond)
}

var protocols = []struct {
	name  string
	http2 bool
}{{"HTTP1", false}, {"HTTP2", true}}

// serve starts a real server.
func serve(t *testing.T, http2 bool, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	if http2 {
		srv.EnableHTTP2 = true
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return srv
}

// request is one of user u1.
func request(t testing.TB, method, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
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
