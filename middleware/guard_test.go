package middleware_test

import (
	"context"
	"errors"
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
	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

func TestOneAtATimePerKey(t *testing.T) {
	var running, most, served atomic.Int32
	g := newGuard(t, memlock.New(), middleware.WithWait(time.Minute))
	srv := guarded(t, http1, g, func(_ http.ResponseWriter, r *http.Request) {
		n := running.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(time.Millisecond)
		running.Add(-1)
		served.Add(1)
	})
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
			if assert.NoError(t, err) {
				assert.NoError(t, resp.Body.Close())
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 1, most.Load())
	assert.EqualValues(t, 30, served.Load())
}

func TestDifferentKeysRunSideBySide(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	g := newGuard(t, memlock.New())
	srv := guarded(t, http1, g, func(http.ResponseWriter, *http.Request) {
		both.Done()
		both.Wait() // for ever, if one waited for the other
	})
	var wg sync.WaitGroup
	for _, id := range []string{"u1", "u2"} {
		wg.Go(func() {
			r := request(t, http.MethodPost, srv.URL)
			r.Header.Set("X-User-ID", id)
			resp, err := srv.Client().Do(r)
			if assert.NoError(t, err) {
				assert.NoError(t, resp.Body.Close())
			}
		})
	}
	wg.Wait()
}

func TestSkip(t *testing.T) {
	reads := middleware.WithSkip(func(r *http.Request) bool { return r.Method == http.MethodGet })
	tests := []struct {
		method string
		opts   []middleware.Option
		ran    bool
	}{
		{http.MethodOptions, nil, true},
		{http.MethodOptions, []middleware.Option{reads}, true},
		{http.MethodGet, []middleware.Option{reads}, true},
		{http.MethodGet, nil, false},
		{http.MethodPost, []middleware.Option{reads}, false},
	}
	for _, tt := range tests {
		g, err := middleware.NewGuard(&stub{err: lock.ErrBusy}, func(*http.Request) (string, error) {
			assert.False(t, tt.ran, "%s: the key was derived", tt.method)
			return "k", nil
		}, tt.opts...)
		require.NoError(t, err)
		w, ran := httptest.NewRecorder(), false
		got := g.Serve(w, httptest.NewRequest(tt.method, "/", nil), http.HandlerFunc(func(given http.ResponseWriter, _ *http.Request) {
			ran = true
			assert.Same(t, w, given)
		}))
		assert.Equal(t, tt.ran, ran, tt.method)
		assert.Equal(t, tt.ran, got, tt.method)
	}
}

func TestHandlerFindsItsLease(t *testing.T) {
	for name, opts := range map[string][]middleware.Option{
		"plain":   nil,
		"MaxHold": {middleware.WithMaxHold(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			type outer struct{}
			var after context.Context
			g := newGuard(t, memlock.New(), opts...)
			h := httplock.Wrap(g)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				lease, ok := lock.From(r.Context())
				require.True(t, ok)
				assert.Equal(t, "u1", lease.Key())
				assert.NotZero(t, lease.Fence())
				assert.Equal(t, r.Context(), lease.Context())
				assert.Equal(t, "kept", r.Context().Value(outer{}))
				require.NoError(t, r.Context().Err())
				after = r.Context()
			}))
			r := request(t, http.MethodPost, "/")
			h.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithValue(r.Context(), outer{}, "kept")))
			require.ErrorIs(t, context.Cause(after), lock.ErrReleased)
		})
	}
}

func TestBodyReachesHandlerWholeAndServerKeepsItsOwn(t *testing.T) {
	const text = `{"user":"u1"}`
	g, err := middleware.NewGuard(memlock.New(), keyfuncs.JSON("user"))
	require.NoError(t, err)
	inner := httplock.Wrap(g)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	srv := serve(t, http1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := r.Body
		inner.ServeHTTP(w, r)
		assert.Same(t, own, r.Body)
	}))
	resp, err := srv.Client().Post(srv.URL, "application/json", strings.NewReader(text))
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, text, string(got))
}

func TestEvents(t *testing.T) {
	var seen guardtest.Events
	g := newGuard(t, memlock.New(), middleware.WithObserver(seen.Observe))
	srv := guarded(t, http1, g, func(http.ResponseWriter, *http.Request) { time.Sleep(2 * time.Millisecond) })
	resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())

	released := guardtest.Await[lock.Released](t, &seen)
	require.Len(t, seen.All(), 2)
	acquired := seen.All()[0].(lock.Acquired)
	assert.Equal(t, "u1", acquired.Key)
	assert.NotZero(t, acquired.Fence)
	assert.Positive(t, acquired.Wait)
	assert.Equal(t, "u1", released.Key)
	assert.Equal(t, acquired.Fence, released.Fence)
	assert.GreaterOrEqual(t, released.Hold, 2*time.Millisecond)
	assert.NoError(t, released.Err)
}

// How the wait for a turn ends when it is the request's context that ends it.
func TestContextEndsWhileWaiting(t *testing.T) {
	tests := []struct {
		name   string
		parent func(context.Context) (context.Context, context.CancelFunc)
		status int
		event  lock.Event
	}{
		{"deadline from further out", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Millisecond)
		}, http.StatusTooManyRequests, lock.Denied{Key: "u1", Reason: "busy"}},
		{"deadline with a cause", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Millisecond, errors.New("too slow"))
		}, http.StatusTooManyRequests, lock.Denied{Key: "u1", Reason: "busy"}},
		{"cancelled from further out", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, 499, lock.Abandoned{Key: "u1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			locks := memlock.New()
			lease, err := locks.Acquire(t.Context(), "u1", lock.Options{})
			require.NoError(t, err)
			defer lease.Release(t.Context())

			var seen guardtest.Events
			g := newGuard(t, locks, middleware.WithWait(time.Minute), middleware.WithObserver(seen.Observe))
			ctx, cancel := tt.parent(t.Context())
			defer cancel()
			w := httptest.NewRecorder()
			ran := g.Serve(w, request(t, http.MethodPost, "/").WithContext(ctx), http.HandlerFunc(nothing))
			assert.False(t, ran)
			assert.Equal(t, tt.status, w.Code)

			require.Len(t, seen.All(), 1)
			switch e := seen.All()[0].(type) {
			case lock.Denied:
				e.Wait, e.Err = 0, nil
				assert.Equal(t, tt.event, e)
			case lock.Abandoned:
				e.Wait = 0
				assert.Equal(t, tt.event, e)
			}
		})
	}
}

func TestClientLeavesWhileWaiting(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			locks := memlock.New()
			lease, err := locks.Acquire(t.Context(), "u1", lock.Options{})
			require.NoError(t, err)

			var seen guardtest.Events
			waits := make(chan struct{})
			g, err := middleware.NewGuard(locks, func(r *http.Request) (string, error) {
				close(waits)
				return user(r)
			}, middleware.WithWait(time.Minute), middleware.WithObserver(seen.Observe))
			require.NoError(t, err)
			srv := guarded(t, p, g, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
			ctx, hangUp := context.WithCancel(t.Context())
			go func() { <-waits; hangUp() }()
			_, err = srv.Client().Do(request(t, http.MethodPost, srv.URL).WithContext(ctx))
			require.ErrorIs(t, err, context.Canceled)

			guardtest.Await[lock.Abandoned](t, &seen)
			assert.Len(t, seen.All(), 1)
			require.NoError(t, lease.Release(t.Context()))
			requireFree(t, locks)
		})
	}
}

func TestInterrupt(t *testing.T) {
	g := newGuard(t, memlock.New())
	held, err := g.Interrupt(t.Context(), "u1")
	require.NoError(t, err)
	assert.False(t, held)

	var cause error
	w := httptest.NewRecorder()
	g.Serve(w, request(t, http.MethodPost, "/"), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		held, err = g.Interrupt(context.Background(), "u1")
		<-r.Context().Done()
		cause = context.Cause(r.Context())
	}))
	require.NoError(t, err)
	assert.True(t, held)
	assert.ErrorIs(t, cause, lock.ErrInterrupted)
	assert.Equal(t, http.StatusConflict, w.Code)
}

func TestPanicOfTheKeyFuncGoesOn(t *testing.T) {
	g, err := middleware.NewGuard(memlock.New(), func(*http.Request) (string, error) { panic("broken") })
	require.NoError(t, err)
	assert.PanicsWithValue(t, "broken", func() {
		g.Serve(httptest.NewRecorder(), request(t, http.MethodPost, "/"), http.HandlerFunc(nothing))
	})
}
