package join_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
	"github.com/reqlock/reqlock/middleware/memlock"
)

func TestEqualRequestsShareOneResponse(t *testing.T) {
	var runs atomic.Int32
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := runs.Add(1)
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Run", fmt.Sprint(n))
		for i := range 20 {
			fmt.Fprintf(w, "%s %d\n", body, i)
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	})
	guard := httplock.New(memlock.New(), keyfuncs.Header("X-User"), middleware.WithJoin(join.New(nil)))
	server := httptest.NewServer(guard(handler))
	defer server.Close()
	roles := make(map[string]int)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			r, _ := http.NewRequest(http.MethodPost, server.URL, strings.NewReader("hello"))
			r.Header.Set("X-User", "u")
			resp, err := http.DefaultClient.Do(r)
			if !assert.NoError(t, err) {
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			assert.NoError(t, err)
			assert.Equal(t, 200, resp.StatusCode)
			assert.Equal(t, "1", resp.Header.Get("X-Run"))
			assert.Equal(t, 20, strings.Count(string(body), "hello"))
			mu.Lock()
			roles[resp.Header.Get("X-Reqlock")]++
			mu.Unlock()
		})
	}
	all.Wait()
	require.Equal(t, map[string]int{"leader": 1, "joined": 199}, roles)
	require.EqualValues(t, 1, runs.Load())
}
