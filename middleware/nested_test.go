package middleware_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
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

// around puts a handler into guards, the first being the outermost.
func around(h http.HandlerFunc, guards ...*middleware.Guard) http.Handler {
	var handler http.Handler = h
	for i := len(guards) - 1; i >= 0; i-- {
		handler = httplock.Wrap(guards[i])(handler)
	}
	return handler
}

// Which guards inside a guard go on under its lease. Those that do not either
// acquire a key of their own or wait for themselves.
func TestNestedGuards(t *testing.T) {
	a, b := memlock.New(), memlock.New()
	list := incomparable{memlock.New()}
	guard := func(l lock.Locker, key keyfuncs.Func, opts ...middleware.Option) *middleware.Guard {
		g, err := middleware.NewGuard(l, key, append(opts, middleware.WithWait(0))...)
		require.NoError(t, err)
		return g
	}
	u1, other := keyfuncs.Const("u1"), keyfuncs.Const("other")
	twice, listTwice := guard(a, u1), guard(list, u1)
	tests := []struct {
		name   string
		guards []*middleware.Guard
		status int
	}{
		{"the same guard", []*middleware.Guard{twice, twice}, 200},
		{"the same Locker and key", []*middleware.Guard{guard(a, u1), guard(a, u1)}, 200},
		{"three", []*middleware.Guard{guard(a, u1), guard(a, u1), guard(a, u1)}, 200},
		{"another key", []*middleware.Guard{guard(a, u1), guard(a, other)}, 200},
		{"another key between", []*middleware.Guard{guard(a, u1), guard(a, other), guard(a, u1)}, 200},
		{"crossed", []*middleware.Guard{guard(a, u1), guard(a, other), guard(a, u1), guard(a, other)}, 200},
		{"another Locker", []*middleware.Guard{guard(a, u1), guard(b, u1)}, 200},
		{"another Locker between", []*middleware.Guard{guard(a, u1), guard(b, u1), guard(a, u1)}, 200},
		{"equal Lockers that are no pointers", []*middleware.Guard{guard(guardtest.Losable{Locker: a}, u1), guard(guardtest.Losable{Locker: a}, u1)}, 200},
		{"the same guard, its Locker not comparable", []*middleware.Guard{listTwice, listTwice}, 200},
		{"a Locker that is not comparable", []*middleware.Guard{guard(list, u1), guard(list, u1)}, 429},
		{"fallbacks", []*middleware.Guard{guard(a, u1, middleware.WithFallback(b)), guard(a, u1, middleware.WithFallback(b))}, 200},
		{"MaxHold", []*middleware.Guard{guard(a, u1, middleware.WithMaxHold(time.Hour)), guard(a, u1, middleware.WithMaxHold(time.Hour))}, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			around(func(_ http.ResponseWriter, r *http.Request) {
				lease, ok := lock.From(r.Context())
				assert.True(t, ok)
				assert.NoError(t, lease.Context().Err())
			}, tt.guards...).ServeHTTP(w, request(t, http.MethodPost, "/"))
			assert.Equal(t, tt.status, w.Code)
			for _, l := range []lock.Locker{a, b, list} {
				requireFree(t, l)
			}
		})
	}
}

// A Locker with another prefix may have a key with the same text: that one is
// acquired.
func TestNestedGuardOfAnotherLockerAcquires(t *testing.T) {
	a, b := memlock.New(), memlock.New()
	w := httptest.NewRecorder()
	around(func(http.ResponseWriter, *http.Request) {
		for _, l := range []lock.Locker{a, b} {
			_, err := l.Acquire(t.Context(), "u1", lock.Options{})
			assert.ErrorIs(t, err, lock.ErrBusy)
		}
	}, newGuard(t, a), newGuard(t, b)).ServeHTTP(w, request(t, http.MethodPost, "/"))
	assert.Equal(t, http.StatusOK, w.Code)
}

// The inner guard tells of nothing, and estimates nothing from it; the handler
// has the outer lease and the whole body.
func TestNestedGuardIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outside, inside guardtest.Events
		locks := memlock.New()
		key := keyfuncs.JSON("user")
		outer, err := middleware.NewGuard(locks, key, middleware.WithObserver(outside.Observe))
		require.NoError(t, err)
		inner, err := middleware.NewGuard(locks, key, middleware.WithObserver(inside.Observe), middleware.WithWait(0))
		require.NoError(t, err)
		const text = `{"user":"u1"}`
		w := httptest.NewRecorder()
		around(func(_ http.ResponseWriter, r *http.Request) {
			lease, _ := lock.From(r.Context())
			assert.Equal(t, outside.All()[0].(lock.Acquired).Fence, lease.Fence())
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			assert.Equal(t, text, string(body))
			time.Sleep(time.Minute)
		}, outer, inner).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text)))
		require.Equal(t, http.StatusOK, w.Code)
		require.Empty(t, inside.All())
		require.Len(t, outside.All(), 2)

		held := hold(t, locks)
		w = httptest.NewRecorder()
		inner.Serve(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text)), http.HandlerFunc(nothing))
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.NoError(t, held.Release(t.Context()))
	})
}

// The inner guard bounds its handler, and answers for that.
func TestNestedMaxHold(t *testing.T) {
	tests := []struct {
		name                  string
		outer, inner          time.Duration
		outerTells, innerTell bool
	}{
		{"the inner's is shorter", time.Hour, time.Minute, false, true},
		{"only the inner has one", 0, time.Minute, false, true},
		{"the outer's is shorter", time.Minute, time.Hour, true, false},
		{"only the outer has one", time.Minute, 0, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var outside, inside guardtest.Events
				locks := memlock.New()
				outer := newGuard(t, locks, middleware.WithMaxHold(tt.outer), middleware.WithObserver(outside.Observe))
				inner := newGuard(t, locks, middleware.WithMaxHold(tt.inner), middleware.WithObserver(inside.Observe))
				began := time.Now()
				w := httptest.NewRecorder()
				around(func(_ http.ResponseWriter, r *http.Request) {
					lease, _ := lock.From(r.Context())
					<-lease.Context().Done()
					assert.Error(t, r.Context().Err())
				}, outer, inner).ServeHTTP(w, request(t, http.MethodPost, "/"))
				assert.Equal(t, http.StatusGatewayTimeout, w.Code)
				assert.Equal(t, time.Minute, time.Since(began))
				for seen, told := range map[*guardtest.Events]bool{&outside: tt.outerTells, &inside: tt.innerTell} {
					want := 0
					if told {
						want = 1
					}
					assert.Len(t, guardtest.Of[lock.Overran](seen), want)
					assert.Len(t, guardtest.Of[lock.Denied](seen), want)
				}
				requireFree(t, locks)
			})
		})
	}
}

// What ends the outer lease is answered for once, and breaks what is half written.
func TestNestedCutOff(t *testing.T) {
	for _, half := range []bool{false, true} {
		for _, p := range protocols {
			t.Run(fmt.Sprintf("half=%v/%s", half, p.name), func(t *testing.T) {
				var seen guardtest.Events
				locks := guardtest.NewLosable()
				opt := middleware.WithObserver(seen.Observe)
				srv := serve(t, p, around(func(w http.ResponseWriter, r *http.Request) {
					if half {
						write(w, "half")
						flush(w)
					}
					guardtest.Lose(r.Context(), lock.ErrExpired)
				}, newGuard(t, locks, opt), newGuard(t, locks, opt)))
				resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				if half {
					require.Error(t, err)
				} else {
					require.NoError(t, err)
					assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
				}
				guardtest.Await[lock.Denied](t, &seen)
				assert.Len(t, seen.All(), 3)
			})
		}
	}
}

// Once the outer lease has ended the inner guard is one like any other.
func TestNestedGuardAfterTheLease(t *testing.T) {
	locks := guardtest.NewLosable()
	inner := newGuard(t, locks, middleware.WithWait(0))
	var later context.Context
	w := send(t, newGuard(t, locks), func(w http.ResponseWriter, r *http.Request) {
		later = context.WithoutCancel(r.Context())
		guardtest.Lose(r.Context(), lock.ErrExpired)
		lost := httptest.NewRecorder()
		assert.False(t, inner.Serve(lost, r.WithContext(later), http.HandlerFunc(nothing)))
		assert.Equal(t, http.StatusTooManyRequests, lost.Code)
		w.WriteHeader(http.StatusNoContent)
	})
	require.Equal(t, http.StatusNoContent, w.Code)

	held := hold(t, locks)
	w = httptest.NewRecorder()
	assert.False(t, inner.Serve(w, request(t, http.MethodPost, "/").WithContext(later), http.HandlerFunc(nothing)))
	assert.Equal(t, http.StatusTooManyRequests, w.Code)
	require.NoError(t, held.Release(t.Context()))
	w = httptest.NewRecorder()
	assert.True(t, inner.Serve(w, request(t, http.MethodPost, "/").WithContext(later), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := locks.Acquire(t.Context(), "u1", lock.Options{})
		assert.ErrorIs(t, err, lock.ErrBusy)
	})))
}

// A panic in the inner handler leaves nothing.
func TestNestedPanic(t *testing.T) {
	locks := memlock.New()
	opt := middleware.WithMaxHold(time.Hour)
	h := around(func(http.ResponseWriter, *http.Request) { panic("broken") }, newGuard(t, locks, opt), newGuard(t, locks, opt))
	assert.PanicsWithValue(t, "broken", func() { h.ServeHTTP(httptest.NewRecorder(), request(t, http.MethodPost, "/")) })
	requireFree(t, locks)
}

// A handler that calls its own service with the key it holds waits for itself
// until WithWait; with a marker that WithSkip knows it does not.
func TestCallOfTheOwnService(t *testing.T) {
	const secret = "s3cret"
	g := newGuard(t, memlock.New(), middleware.WithWait(20*time.Millisecond), middleware.WithSkip(func(r *http.Request) bool {
		return r.Header.Get("X-Internal") == secret
	}))
	mux := http.NewServeMux()
	srv := serve(t, http1, mux)
	call := func(r *http.Request, path, marker string) int {
		inner := request(t, http.MethodPost, srv.URL+path).WithContext(r.Context())
		inner.Header.Set("X-Internal", marker)
		resp, err := srv.Client().Do(inner)
		if !assert.NoError(t, err) {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	mux.Handle("POST /inner", wrap(g, nothing))
	mux.Handle("POST /outer", wrap(g, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(call(r, "/inner", "")) }))
	mux.Handle("POST /marked", wrap(g, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(call(r, "/inner", secret)) }))
	assert.Equal(t, http.StatusTooManyRequests, call(request(t, http.MethodPost, "/"), "/outer", ""))
	assert.Equal(t, http.StatusOK, call(request(t, http.MethodPost, "/"), "/marked", ""))
}
