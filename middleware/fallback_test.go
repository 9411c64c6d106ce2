package middleware_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// send has g serve one request of user u1.
func send(t testing.TB, g *middleware.Guard, h http.HandlerFunc) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.Serve(w, request(t, http.MethodPost, "/"), h)
	return w
}

func hold(t testing.TB, l lock.Locker) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(context.WithoutCancel(t.Context()), "u1", lock.Options{})
	require.NoError(t, err)
	return lease
}

// Whatever the primary does, and whenever: never two handlers of a key at a time,
// and never a fence that is not above the one before, wherever the primary's clock
// is.
func TestNeverTwoWhileThePrimaryFlaps(t *testing.T) {
	const workers, rounds = 16, 60
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			var seen guardtest.Events
			primary, mem := guardtest.NewPrimary(ahead), memlock.New()
			var routes []*middleware.Guard // that have the key in common
			for range 2 {
				routes = append(routes, newGuard(t, primary, middleware.WithFallback(mem), middleware.WithWait(time.Minute), middleware.WithObserver(seen.Observe)))
			}

			var mu sync.Mutex
			running, last := 0, uint64(0)
			handler := func(w http.ResponseWriter, r *http.Request) {
				lease, _ := lock.From(r.Context())
				mu.Lock()
				running++
				assert.Equal(t, 1, running, "handlers at a time")
				assert.Greater(t, lease.Fence(), last)
				last = lease.Fence()
				mu.Unlock()
				for range rand.IntN(20) {
					runtime.Gosched()
				}
				mu.Lock()
				running--
				mu.Unlock()
				w.Header().Set("Content-Length", "0") // whole, whatever becomes of the lease
				w.WriteHeader(http.StatusOK)
			}
			require.Equal(t, http.StatusOK, send(t, routes[0], handler).Code) // mem has seen a fence

			var wg sync.WaitGroup
			for i := range workers {
				wg.Go(func() {
					for range rounds {
						send(t, routes[i%2], handler)
					}
				})
			}
			stop, flapped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(flapped)
				for {
					select {
					case <-stop:
						return
					case <-time.After(rand.N(500 * time.Microsecond)):
					}
					primary.Fail(lock.ErrUnavailable)
					if rand.IntN(2) == 0 {
						primary.Forget()
					}
					time.Sleep(rand.N(500 * time.Microsecond))
					primary.Fail(nil)
				}
			}()
			wg.Wait()
			close(stop)
			<-flapped

			with := map[bool]int{}
			for _, e := range guardtest.Of[lock.Acquired](&seen) {
				with[e.Fallback]++
			}
			assert.NotZero(t, with[true])
			assert.NotZero(t, with[false])
			for _, e := range guardtest.Of[lock.Denied](&seen) {
				assert.Equal(t, "lost", e.Reason) // with both at hand nothing else stands in the way
			}
			requireFree(t, mem)
			assert.Zero(t, primary.Held())
		})
	}
}

// What a client gets, by what the primary and the fallback say.
func TestFallbackAnswers(t *testing.T) {
	busy := &lock.BusyError{Err: lock.ErrBusy, Ahead: 1}
	full := &lock.BusyError{Err: lock.ErrQueueFull, Ahead: 1}
	down := fmt.Errorf("stub: %w", lock.ErrUnavailable)
	soon := &lock.UnavailableError{Err: down, After: 7 * time.Second}
	tests := []struct {
		name              string
		primary, fallback error
		status            int
		reason            middleware.Reason // "": the handler ran
		with              bool              // the fallback
		after             string
	}{
		{"both grant", nil, nil, 200, "", false, ""},
		{"held by a handler that the fallback let in", nil, busy, 429, middleware.Busy, false, "1"},
		{"too many wait in the fallback", nil, full, 429, middleware.QueueFull, false, "1"},
		{"the fallback is down", nil, down, 200, "", false, ""},
		{"the fallback is broken", nil, errSecret, 503, middleware.Unavailable, false, "1"},
		{"busy", busy, nil, 429, middleware.Busy, false, "1"},
		{"queue full", full, nil, 429, middleware.QueueFull, false, "1"},
		{"busy, and the fallback is down", busy, down, 429, middleware.Busy, false, "1"},
		{"outage", down, nil, 200, "", true, ""},
		{"outage, held in the fallback", down, busy, 429, middleware.Busy, false, "1"},
		{"outage, too many wait in the fallback", down, full, 429, middleware.QueueFull, false, "1"},
		{"both are down", down, down, 503, middleware.Unavailable, false, "1"},
		{"both are down, for how long is known", soon, down, 503, middleware.Unavailable, false, "7"},
		{"outage, and the fallback is broken", down, errSecret, 503, middleware.Unavailable, false, "1"},
		{"broken", errSecret, nil, 503, middleware.Unavailable, false, "1"},
	}
	for _, tt := range tests {
		for _, wait := range []time.Duration{0, time.Second} {
			t.Run(fmt.Sprint(tt.name, "/", wait), func(t *testing.T) {
				var seen guardtest.Events
				primary, fallback := &stub{err: tt.primary}, &stub{err: tt.fallback}
				g := newGuard(t, primary, middleware.WithFallback(fallback), middleware.WithWait(wait), middleware.WithTTL(time.Minute), middleware.WithMaxQueue(7), middleware.WithObserver(seen.Observe))
				ran := false
				w := send(t, g, func(http.ResponseWriter, *http.Request) { ran = true })

				assert.Equal(t, tt.status, w.Code)
				assert.Equal(t, tt.reason == "", ran)
				assert.Equal(t, tt.after, w.Header().Get("Retry-After"))
				if tt.reason != "" {
					assert.Contains(t, w.Body.String(), fmt.Sprintf(`"reason":%q`, tt.reason))
					assert.NotContains(t, w.Body.String(), "stub")
					denied := guardtest.Of[lock.Denied](&seen)
					require.Len(t, denied, 1)
					if tt.primary == down && tt.status == 503 { // the log has both
						assert.ErrorIs(t, denied[0].Err, down)
						assert.ErrorIs(t, denied[0].Err, tt.fallback)
					}
				} else {
					assert.Equal(t, tt.with, guardtest.Of[lock.Acquired](&seen)[0].Fallback)
				}
				assert.Equal(t, tt.primary == nil, primary.released != nil, "the primary's lease was given back")
				assert.Equal(t, tt.fallback == nil && (tt.primary == nil || tt.primary == down), fallback.released != nil)

				if fallback.asked { // with what the primary was, and the rest of the wait
					assert.Equal(t, time.Minute, fallback.options.TTL)
					assert.Equal(t, 7, fallback.options.MaxQueue)
					assert.LessOrEqual(t, fallback.options.Wait, wait)
					assert.Equal(t, wait > 0, fallback.options.Wait > 0)
				}
			})
		}
	}
}

// A lease that has ended is not run with, whatever it was ended with.
func TestFallbackLeaseEndsWhileTheOtherIsWaitedFor(t *testing.T) {
	for cause, status := range map[error]int{lock.ErrUnavailable: 503, lock.ErrExpired: 503, lock.ErrStolen: 503, lock.ErrInterrupted: 409} {
		t.Run(cause.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ctx context.Context
				primary, mem := guardtest.NewLosable(), memlock.New()
				held := hold(t, mem)
				g := newGuard(t, &tap{primary, &ctx}, middleware.WithFallback(mem))
				time.AfterFunc(time.Second, func() { synctest.Wait(); guardtest.Lose(ctx, cause) })
				w := send(t, g, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
				assert.Equal(t, status, w.Code)
				requireFree(t, primary)
				require.NoError(t, held.Release(t.Context()))
			})
		})
	}
}

// The handler has the primary's lease, and the fallback holds the key beside it.
func TestFallbackHoldsBeside(t *testing.T) {
	for _, opts := range [][]middleware.Option{nil, {middleware.WithMaxHold(time.Hour)}} {
		primary, mem := guardtest.NewPrimary(time.Hour), memlock.New()
		g := newGuard(t, primary, append(opts, middleware.WithFallback(mem))...)
		var after context.Context
		w := send(t, g, func(_ http.ResponseWriter, r *http.Request) {
			lease, ok := lock.From(r.Context())
			require.True(t, ok)
			assert.Equal(t, "u1", lease.Key())
			assert.Equal(t, r.Context(), lease.Context())
			assert.InDelta(t, time.Now().Add(time.Hour).UnixMicro(), lease.Fence(), 1e6)
			assert.Equal(t, 1, primary.Held())
			_, err := mem.Acquire(t.Context(), "u1", lock.Options{})
			assert.ErrorIs(t, err, lock.ErrBusy)
			after = r.Context()
		})
		require.Equal(t, http.StatusOK, w.Code)
		assert.ErrorIs(t, context.Cause(after), lock.ErrReleased)
		assert.Zero(t, primary.Held())
		requireFree(t, mem)
	}
}

// What becomes of the fallback's lease is nothing to a handler that has the
// primary's; the loss of that is.
func TestFallbackLeaseLost(t *testing.T) {
	var fallbackCtx context.Context
	fallback := &tap{Locker: guardtest.NewLosable(), ctx: &fallbackCtx}
	primary := guardtest.NewPrimary(0)
	g := newGuard(t, primary, middleware.WithFallback(fallback))
	w := send(t, g, func(_ http.ResponseWriter, r *http.Request) {
		guardtest.Lose(fallbackCtx, lock.ErrExpired)
		<-fallbackCtx.Done()
		assert.NoError(t, r.Context().Err())
	})
	assert.Equal(t, http.StatusOK, w.Code)

	w = send(t, g, func(_ http.ResponseWriter, r *http.Request) {
		primary.Forget()
		<-r.Context().Done()
		assert.ErrorIs(t, context.Cause(r.Context()), lock.ErrExpired)
	})
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	requireFree(t, fallback)
}

// tap remembers the context of the newest lease.
type tap struct {
	lock.Locker
	ctx *context.Context
}

func (l *tap) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	lease, err := l.Locker.Acquire(ctx, key, o)
	if err == nil {
		*l.ctx = lease.Context()
	}
	return lease, err
}

// A handler that is still there when its lease was lost in the outage, and one
// that the fallback let in, are waited for by whoever comes after the switch.
func TestFallbackWaitsForWhoRuns(t *testing.T) {
	tests := []struct {
		name       string
		first      error // what the primary says to the first request
		then       error // and to the second
		fallbackOn []bool
	}{
		{"into the outage", nil, lock.ErrUnavailable, []bool{false, true}},
		{"out of the outage", lock.ErrUnavailable, nil, []bool{true, false}},
		{"over a whole outage", nil, nil, []bool{false, false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen guardtest.Events
				primary := guardtest.NewPrimary(0)
				g := newGuard(t, primary, middleware.WithFallback(memlock.New()), middleware.WithObserver(seen.Observe))
				primary.Fail(tt.first)
				release := make(chan struct{})
				go send(t, g, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204); <-release })
				synctest.Wait()

				primary.Forget()
				primary.Fail(tt.then)
				began := time.Now()
				w := send(t, g, nothing) // waits for the first in vain
				assert.Equal(t, http.StatusTooManyRequests, w.Code)
				assert.Equal(t, middleware.DefaultWait, time.Since(began))
				assert.Zero(t, primary.Held(), "given back")

				second := make(chan *httptest.ResponseRecorder)
				go func() { second <- send(t, g, nothing) }()
				synctest.Wait()
				close(release)
				assert.Equal(t, http.StatusOK, (<-second).Code)
				var with []bool
				for _, e := range guardtest.Of[lock.Acquired](&seen) {
					with = append(with, e.Fallback)
				}
				assert.Equal(t, tt.fallbackOn, with)
			})
		})
	}
}

// Whatever the handler or the observer does, both are free right after.
func TestFallbackReleasedWhateverHappens(t *testing.T) {
	tests := []struct {
		name    string
		h       http.HandlerFunc
		observe lock.Observer
	}{
		{"the handler panics", func(http.ResponseWriter, *http.Request) { panic("broken") }, nil},
		{"the handler ends its goroutine", func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, nil},
		{"the handler releases", func(_ http.ResponseWriter, r *http.Request) {
			lease, _ := lock.From(r.Context())
			_ = lease.Release(r.Context())
			assert.ErrorIs(t, context.Cause(r.Context()), lock.ErrReleased)
		}, nil},
		{"the observer panics", nothing, func(_ context.Context, e lock.Event) { panic(e) }},
	}
	for _, tt := range tests {
		for _, down := range []error{nil, lock.ErrUnavailable} {
			t.Run(fmt.Sprint(tt.name, "/", down), func(t *testing.T) {
				primary, mem := guardtest.NewPrimary(0), memlock.New()
				primary.Fail(down)
				if tt.observe == nil {
					tt.observe = func(context.Context, lock.Event) {}
				}
				g := newGuard(t, primary, middleware.WithFallback(mem), middleware.WithObserver(tt.observe))
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					send(t, g, tt.h)
				}()
				<-done
				requireFree(t, mem)
				assert.Zero(t, primary.Held())
			})
		}
	}
}

// MaxHold is for handlers under the fallback's lease as well.
func TestFallbackMaxHold(t *testing.T) {
	for _, down := range []error{nil, lock.ErrUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			var seen guardtest.Events
			primary, mem := guardtest.NewPrimary(0), memlock.New()
			primary.Fail(down)
			g := newGuard(t, primary, middleware.WithFallback(mem), middleware.WithMaxHold(time.Minute), middleware.WithObserver(seen.Observe))
			w := send(t, g, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			assert.Equal(t, http.StatusGatewayTimeout, w.Code)
			overran, acquired := guardtest.Of[lock.Overran](&seen), guardtest.Of[lock.Acquired](&seen)
			require.Len(t, overran, 1)
			assert.Equal(t, acquired[0].Fence, overran[0].Fence)
			requireFree(t, mem)
		})
	}
}

func TestFallbackOpen(t *testing.T) {
	var seen guardtest.Events
	primary := guardtest.NewPrimary(0)
	primary.Fail(lock.ErrUnavailable)
	g := newGuard(t, primary, middleware.WithFallback(lock.Open), middleware.WithWait(0), middleware.WithObserver(seen.Observe))
	w := send(t, g, func(_ http.ResponseWriter, r *http.Request) {
		lease, _ := lock.From(r.Context())
		assert.Zero(t, lease.Fence())
		assert.Equal(t, http.StatusOK, send(t, g, nothing).Code, "beside it")
	})
	assert.Equal(t, http.StatusOK, w.Code)
	primary.Fail(nil)
	w = send(t, g, func(_ http.ResponseWriter, r *http.Request) {
		lease, _ := lock.From(r.Context())
		assert.NotZero(t, lease.Fence())
		assert.Equal(t, http.StatusTooManyRequests, send(t, g, nothing).Code, "excluded again")
	})
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, "lock.Open", guardtest.Of[lock.FallbackBegan](&seen)[0].Fallback)
}

func TestFallbackRefused(t *testing.T) {
	mem := memlock.New()
	losable := guardtest.NewLosable()
	for _, tt := range []struct {
		primary, fallback lock.Locker
		want              string
	}{
		{mem, mem, "middleware: WithFallback: it is the guard's own lock.Locker"},
		{losable, losable, "middleware: WithFallback: it is the guard's own lock.Locker"},
		{mem, nil, "middleware: WithFallback: the lock.Locker is nil"},
		{mem, (*memlock.Locker)(nil), "middleware: WithFallback: the lock.Locker is nil"},
		{mem, memlock.New(), ""},
		{incomparable{mem}, incomparable{mem}, ""}, // nobody can tell
	} {
		_, err := middleware.NewGuard(tt.primary, user, middleware.WithFallback(tt.fallback))
		if tt.want == "" {
			assert.NoError(t, err)
			continue
		}
		assert.EqualError(t, err, tt.want)
	}
}

// incomparable is a Locker of a type that == panics with.
type incomparable []lock.Locker

func (l incomparable) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	return l[0].Acquire(ctx, key, o)
}

func (l incomparable) Interrupt(ctx context.Context, key string) (bool, error) {
	return l[0].Interrupt(ctx, key)
}
