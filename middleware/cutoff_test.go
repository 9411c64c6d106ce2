package middleware_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
)

// A handler that is cut off before it wrote anything is answered for.
func TestCutOffBeforeAnythingWasWritten(t *testing.T) {
	lost := func(cause error) func(*http.Request) {
		return func(r *http.Request) { guardtest.Lose(r.Context(), cause) }
	}
	maxHold := middleware.WithMaxHold(20 * time.Millisecond)
	waits := func(r *http.Request) { <-r.Context().Done() }
	tests := []struct {
		name   string
		opts   []middleware.Option
		cut    func(*http.Request)
		status int
		reason middleware.Reason
		after  string
		retry  string
	}{
		{"expired", nil, lost(lock.ErrExpired), 503, middleware.Lost, "1", ""},
		{"stolen", nil, lost(lock.ErrStolen), 503, middleware.Lost, "1", ""},
		{"interrupted", nil, lost(lock.ErrInterrupted), 409, middleware.Interrupted, "1", "false"},
		{"held for too long", []middleware.Option{maxHold}, waits, 504, middleware.MaxHold, "", ""},
	}
	for _, tt := range tests {
		for _, p := range protocols {
			t.Run(tt.name+"/"+p.name, func(t *testing.T) {
				var seen guardtest.Events
				locks := guardtest.NewLosable()
				g := newGuard(t, locks, append(tt.opts, middleware.WithObserver(seen.Observe))...)
				srv := guarded(t, p, g, func(w http.ResponseWriter, r *http.Request) {
					// What it says of a body that never comes.
					w.Header().Set("Content-Type", "text/event-stream")
					w.Header().Set("Content-Length", "1000")
					w.Header().Set("Content-Encoding", "br")
					w.Header().Set("Etag", `"x"`)
					w.Header().Set("X-Request-ID", "kept")
					w.WriteHeader(http.StatusEarlyHints)
					tt.cut(r)
					// A source that fails with the context writes nothing.
					n, _ := io.Copy(w, failing{})
					assert.Zero(t, n)
				})
				resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
				require.NoError(t, err)
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.Equal(t, tt.status, resp.StatusCode)
				assert.Contains(t, string(body), fmt.Sprintf(`"reason":%q`, tt.reason))
				assert.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
				assert.Empty(t, resp.Header.Get("Content-Encoding"))
				assert.Empty(t, resp.Header.Get("Etag"))
				assert.Equal(t, "kept", resp.Header.Get("X-Request-ID"))
				assert.Equal(t, tt.after, resp.Header.Get("Retry-After"))
				assert.Equal(t, tt.retry, resp.Header.Get("X-Should-Retry"))

				requireFree(t, locks)
				events := seen.All()
				if tt.reason == middleware.MaxHold {
					assert.Equal(t, lock.Overran{Key: "u1", Fence: events[0].(lock.Acquired).Fence, Hold: 20 * time.Millisecond}, events[1])
					events = events[1:]
				}
				require.Len(t, events, 3)
				assert.IsType(t, lock.Released{}, events[1])
				assert.Equal(t, string(tt.reason), events[2].(lock.Denied).Reason)
			})
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func write(w http.ResponseWriter, text string) { _, _ = io.WriteString(w, text) }
func flush(w http.ResponseWriter)              { _ = http.NewResponseController(w).Flush() }

// recoverAll is a recovery that swallows http.ErrAbortHandler, as gin's does.
func recoverAll(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { _ = recover() }()
		next.ServeHTTP(w, r)
	})
}

// A response that is half written when its handler is cut off reaches nobody
// as a whole one.
func TestCutOffHalfWritten(t *testing.T) {
	tests := []struct {
		name string
		h    http.HandlerFunc
	}{
		{"chunked", func(w http.ResponseWriter, _ *http.Request) { write(w, "half"); flush(w) }},
		{"chunked, longer than the buffers", func(w http.ResponseWriter, _ *http.Request) { write(w, strings.Repeat("half", 1<<14)) }},
		{"still in the buffer", func(w http.ResponseWriter, _ *http.Request) { write(w, "half") }},
		{"part after the last flush", func(w http.ResponseWriter, _ *http.Request) { write(w, "one"); flush(w); write(w, "two") }},
		{"status only", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }},
		{"FlushError only", func(w http.ResponseWriter, _ *http.Request) { flush(w) }},
		{"Flush only", func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }},
		{"less than the Content-Length", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			write(w, "half")
		}},
		{"less than the Content-Length, flushed", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			write(w, "half")
			flush(w)
		}},
		{"copied", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader("half")}) // by ReadFrom, not by WriteTo
		}},
	}
	for _, tt := range tests {
		for _, p := range protocols {
			for _, recovery := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/recovery=%v", tt.name, p.name, recovery), func(t *testing.T) {
					var seen guardtest.Events
					locks := guardtest.NewLosable()
					h := httplock.Wrap(newGuard(t, locks, middleware.WithObserver(seen.Observe)))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						tt.h(w, r)
						guardtest.Lose(r.Context(), lock.ErrExpired)
					}))
					if recovery {
						h = recoverAll(h)
					}
					srv := serve(t, p, h)
					resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
					if err == nil {
						_, err = io.ReadAll(resp.Body)
						resp.Body.Close()
					}
					require.Error(t, err)
					requireFree(t, locks)
					assert.Equal(t, "lost", guardtest.Await[lock.Denied](t, &seen).Reason)
				})
			}
		}
	}
}

// Where the writer knows no deadline the panic has to do.
func TestCutOffHalfWrittenWithoutDeadline(t *testing.T) {
	h := httplock.Wrap(newGuard(t, guardtest.NewLosable()))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		write(w, "half")
		guardtest.Lose(r.Context(), lock.ErrExpired)
	}))
	w := httptest.NewRecorder()
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { h.ServeHTTP(w, request(t, http.MethodPost, "/")) })
	assert.Equal(t, "half", w.Body.String())

	srv := serve(t, http1, http.TimeoutHandler(h, time.Minute, ""))
	_, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
	require.Error(t, err)
}

// A response that is whole by what it declared stays as it is.
func TestCutOffWhenComplete(t *testing.T) {
	tests := []struct {
		name   string
		method string
		h      http.HandlerFunc
		status int
		body   string
	}{
		{"all of the Content-Length", http.MethodPost, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			write(w, "wh")
			_, _ = w.Write([]byte("ole"))
		}, 200, "whole"},
		{"nothing declared, nothing sent", http.MethodPost, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(http.StatusCreated)
		}, 201, ""},
		{"no content", http.MethodPost, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, 204, ""},
		{"not modified", http.MethodPost, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, 304, ""},
		{"HEAD", http.MethodHead, func(w http.ResponseWriter, _ *http.Request) { write(w, "whole") }, 200, ""},
	}
	for _, tt := range tests {
		for _, p := range protocols {
			t.Run(tt.name+"/"+p.name, func(t *testing.T) {
				var seen guardtest.Events
				locks := guardtest.NewLosable()
				srv := guarded(t, p, newGuard(t, locks, middleware.WithObserver(seen.Observe)), func(w http.ResponseWriter, r *http.Request) {
					tt.h(w, r)
					guardtest.Lose(r.Context(), lock.ErrExpired)
				})
				resp, err := srv.Client().Do(request(t, tt.method, srv.URL))
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, tt.status, resp.StatusCode)
				assert.Equal(t, tt.body, string(body))
				guardtest.Await[lock.Released](t, &seen)
				assert.Len(t, seen.All(), 2)
			})
		}
	}
}

// A middleware further out that compresses keeps its Content-Encoding.
func TestCutOffKeepsEncodingFromFurtherOut(t *testing.T) {
	locks := guardtest.NewLosable()
	inner := httplock.Wrap(newGuard(t, locks))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		guardtest.Lose(r.Context(), lock.ErrExpired)
	}))
	srv := serve(t, http1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "x-outer")
		inner.ServeHTTP(w, r)
	}))
	resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, []string{"x-outer"}, resp.Header["Content-Encoding"])
}
