package join_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// In HTTP/2 a request without a body has one that is empty, and not http.NoBody.
func TestRequestsWithoutBodyJoinInHTTP2(t *testing.T) {
	running, finish := make(chan struct{}), make(chan struct{})
	server := httptest.NewUnstartedServer(joining()(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(running)
		_ = http.NewResponseController(w).Flush()
		<-finish
	})))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	get := func() *http.Response {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		t.Cleanup(cancel)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		r.Header.Set("X-User", "u")
		resp, err := server.Client().Do(r)
		require.NoError(t, err, "it waits for the other one")
		t.Cleanup(func() { _ = resp.Body.Close() })
		require.Equal(t, 2, resp.ProtoMajor)
		return resp
	}
	defer close(finish)
	assert.Equal(t, "leader", get().Header.Get("X-Reqlock"))
	<-running
	assert.Equal(t, "joined", get().Header.Get("X-Reqlock"))
}
