package middleware_test

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// A recorder is what many a logging middleware puts around the writer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (w *recorder) WriteHeader(status int)      { w.status = status; w.ResponseWriter.WriteHeader(status) }
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func recorded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&recorder{ResponseWriter: w}, r)
	})
}

// What goes past a recorder, by an http.ResponseController, counts as written.
func TestPastARecorder(t *testing.T) {
	tests := []struct {
		name string
		h    func(*testing.T, http.ResponseWriter)
		want func(*testing.T, *http.Response, error)
	}{
		{"nothing", func(*testing.T, http.ResponseWriter) {}, func(t *testing.T, resp *http.Response, err error) {
			require.NoError(t, err)
			assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		}},
		{"flushed", func(t *testing.T, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			assert.NoError(t, http.NewResponseController(w).Flush())
		}, func(t *testing.T, resp *http.Response, err error) {
			if err == nil {
				_, err = io.ReadAll(resp.Body)
			}
			require.Error(t, err, "a clean end")
		}},
		{"written", func(_ *testing.T, w http.ResponseWriter) { _, _ = io.WriteString(w, "half") }, func(t *testing.T, resp *http.Response, err error) {
			if err == nil {
				_, err = io.ReadAll(resp.Body)
			}
			require.Error(t, err, "a clean end")
		}},
		{"hijacked", func(t *testing.T, w http.ResponseWriter) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if !assert.NoError(t, err) {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = rw.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nmine!")
				assert.NoError(t, rw.Flush())
			}()
		}, func(t *testing.T, resp *http.Response, err error) {
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, "mine!", string(body))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGuard(t, guardtest.NewLosable())
			srv := httptest.NewServer(recorded(wrap(g, func(w http.ResponseWriter, r *http.Request) {
				_, ok := w.(http.Flusher)
				assert.False(t, ok, "the recorder has no Flush")
				tt.h(t, w)
				guardtest.Lose(r.Context(), lock.ErrExpired)
			})))
			defer srv.Close()
			resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
			if err == nil {
				defer resp.Body.Close()
			}
			tt.want(t, resp, err)
		})
	}
}

// A server that ends its requests is not a client that has left: that one is
// told to come again.
func TestServerEndsItsRequests(t *testing.T) {
	closing := errors.New("closing")
	base, end := context.WithCancelCause(context.Background())
	seen := new(guardtest.Events)
	locks := memlock.New()
	srv := httptest.NewUnstartedServer(wrap(newGuard(t, locks, middleware.WithWait(time.Minute), middleware.WithObserver(seen.Observe)), nothing))
	srv.Config.BaseContext = func(net.Listener) context.Context { return base }
	srv.Start()
	defer srv.Close()
	held, err := locks.Acquire(t.Context(), "u1", lock.Options{})
	require.NoError(t, err)
	time.AfterFunc(50*time.Millisecond, func() { end(closing) })
	resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	assert.Empty(t, guardtest.Of[lock.Abandoned](seen))
	require.NoError(t, held.Release(t.Context()))
}

// A compressing middleware that knows little gets a denial through.
func TestDenialThroughCompression(t *testing.T) {
	guard := wrap(newGuard(t, memlock.New()), nothing)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		guard.ServeHTTP(compressed{w, z}, r)
	}))
	defer srv.Close()
	resp, err := srv.Client().Get(srv.URL) // no key
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	assert.Contains(t, string(body), `"reason":"no_key"`)
}

type compressed struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (w compressed) Write(p []byte) (int, error) { return w.z.Write(p) }

// Guards and recorders around each other count each byte once.
func TestRecordersAndGuardsNested(t *testing.T) {
	inner, outer := guardtest.NewLosable(), newGuard(t, memlock.New())
	for _, size := range []int{5, 10} {
		srv := httptest.NewServer(recorded(wrap(outer, recorded(wrap(newGuard(t, inner), func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("0123456789")[:size])
			guardtest.Lose(r.Context(), lock.ErrExpired)
		})).ServeHTTP)))
		resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if size == 10 {
			assert.NoError(t, err, "a whole answer")
		} else {
			assert.Error(t, err, "half an answer")
		}
		srv.Close()
	}
}
