package ginlock_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware/lock"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	gin.DefaultErrorWriter = io.Discard // what gin.Recovery logs
	goleak.VerifyTestMain(m)
}

var user = keyfuncs.Header("X-User-ID")

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
