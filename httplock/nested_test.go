package httplock_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// A guard around a ServeMux and one on a route in it, with the same key out of
// the body: one lease, and the body is whole.
func TestNestedAroundServeMux(t *testing.T) {
	locks := memlock.New()
	guard := func() func(http.Handler) http.Handler {
		return httplock.New(locks, keyfuncs.JSON("user"), middleware.WithWait(0))
	}
	mux := http.NewServeMux()
	mux.Handle("POST /", guard()(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(w, r.Body)
		assert.NoError(t, err)
	})))
	srv := httptest.NewServer(guard()(mux))
	defer srv.Close()
	const text = `{"user":"u1"}`
	for range 2 {
		resp, err := srv.Client().Post(srv.URL, "application/json", strings.NewReader(text))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, text, string(body))
	}
}
