package middleware_test

import (
	"context"
	"errors"
	"net/http"
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

var errOutage = errors.Join(lock.ErrUnavailable, errors.New("connection refused"))

// changes returns the events of fallbacks, in order.
func changes(seen *guardtest.Events) []lock.Event {
	var found []lock.Event
	for _, e := range seen.All() {
		switch e.(type) {
		case lock.FallbackBegan, lock.FallbackEnded:
			found = append(found, e)
		}
	}
	return found
}

// One event each way for each outage, however many requests there are and however
// the primary flaps.
func TestFallbackEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen guardtest.Events
		primary := guardtest.NewPrimary(0)
		g := newGuard(t, primary, middleware.WithFallback(memlock.New()), middleware.WithObserver(seen.Observe))
		serve := func(n int) {
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() { assert.Equal(t, http.StatusOK, send(t, g, nothing).Code) })
			}
			wg.Wait()
		}
		began := lock.FallbackBegan{Route: "POST /", Fallback: "memlock", Err: errOutage}
		serve(5)
		require.Empty(t, changes(&seen))

		primary.Fail(errOutage)
		serve(10)
		require.Equal(t, []lock.Event{began}, changes(&seen))
		for range 5 { // it flaps
			time.Sleep(500 * time.Millisecond)
			primary.Fail(nil)
			serve(3)
			time.Sleep(400 * time.Millisecond)
			primary.Fail(errOutage)
			serve(2)
		}
		require.Len(t, changes(&seen), 1)

		primary.Fail(nil)
		time.Sleep(time.Second - 1)
		serve(10)
		require.Len(t, changes(&seen), 1)
		time.Sleep(time.Nanosecond)
		serve(10)
		require.Equal(t, []lock.Event{began, lock.FallbackEnded{Route: "POST /", Fallback: "memlock", Requests: 20, After: 5500 * time.Millisecond}}, changes(&seen))

		primary.Fail(errOutage) // anew
		serve(1)
		primary.Fail(nil)
		time.Sleep(time.Minute)
		serve(1)
		require.Equal(t, []lock.Event{began, lock.FallbackEnded{Route: "POST /", Fallback: "memlock", Requests: 1, After: time.Minute}}, changes(&seen)[2:])

		primary.Fail(errOutage)
		serve(1)
		time.Sleep(time.Minute) // the guard has no requests, and knows nothing
		serve(1)
		time.Sleep(time.Minute + 1)
		serve(1)
		require.Equal(t, []lock.Event{began, began}, changes(&seen)[4:])
	})
}

// That it is busy is an answer of the primary, too.
func TestFallbackEndsWithAnyAnswer(t *testing.T) {
	for _, answer := range []error{nil, lock.ErrBusy, lock.ErrQueueFull} {
		synctest.Test(t, func(t *testing.T) {
			var seen guardtest.Events
			primary := &stub{err: errOutage}
			g := newGuard(t, primary, middleware.WithFallback(memlock.New()), middleware.WithObserver(seen.Observe))
			send(t, g, nothing)
			primary.err = errors.New("not an answer")
			time.Sleep(time.Minute)
			send(t, g, nothing)
			require.Len(t, changes(&seen), 1)
			primary.err = answer
			send(t, g, nothing)
			require.Len(t, changes(&seen), 2)
		})
	}
}

// Nothing has begun before a request runs.
func TestFallbackBeginsWithWhoRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen guardtest.Events
		primary, fallback := &stub{err: errOutage}, &stub{err: lock.ErrUnavailable}
		g := newGuard(t, primary, middleware.WithFallback(fallback), middleware.WithObserver(seen.Observe))
		send(t, g, nothing)
		primary.err = nil
		time.Sleep(time.Minute)
		send(t, g, nothing)
		require.Empty(t, changes(&seen))

		primary.err, fallback.err = errOutage, nil
		send(t, g, nothing)
		require.Len(t, changes(&seen), 1)
		require.IsType(t, lock.FallbackBegan{}, seen.All()[len(seen.All())-3], "before Acquired")
	})
}

// A request that has waited in the fallback for longer than the outage took
// leaves no beginning without an end, and no second one.
func TestFallbackEventsOfWhoComesLate(t *testing.T) {
	for _, told := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var seen guardtest.Events
			primary, mem := guardtest.NewPrimary(0), memlock.New()
			g, err := middleware.NewGuard(primary, func(r *http.Request) (string, error) { return r.URL.Path, nil },
				middleware.WithFallback(mem), middleware.WithWait(time.Minute), middleware.WithObserver(seen.Observe))
			require.NoError(t, err)
			send := func(path string) {
				g.Serve(discard{}, request(t, http.MethodPost, path), http.HandlerFunc(nothing))
			}
			held, err := mem.Acquire(t.Context(), "/late", lock.Options{})
			require.NoError(t, err)
			primary.Fail(errOutage)
			done := make(chan struct{})
			go func() { defer close(done); send("/late") }()
			synctest.Wait()
			if told {
				send("/other")
			}
			primary.Fail(nil)
			time.Sleep(2 * time.Second)
			send("/other") // the outage is over
			before := 0
			if told {
				before = 2
			}
			require.Len(t, changes(&seen), before)

			require.NoError(t, held.Release(t.Context()))
			<-done
			send("/other")
			require.Len(t, changes(&seen), 2)
			require.IsType(t, lock.FallbackBegan{}, changes(&seen)[0])
			require.IsType(t, lock.FallbackEnded{}, changes(&seen)[1])
		})
	}
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

// An observer may use the guard that it is told by.
func TestFallbackObserverIsCalledWithoutAMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g *middleware.Guard
		primary := guardtest.NewPrimary(0)
		inside := 0
		g = newGuard(t, primary, middleware.WithFallback(lock.Open), middleware.WithObserver(func(_ context.Context, e lock.Event) {
			switch e.(type) {
			case lock.FallbackBegan:
				inside++
				assert.Equal(t, http.StatusOK, send(t, g, nothing).Code)
			case lock.FallbackEnded:
				inside++
				assert.Equal(t, http.StatusTooManyRequests, send(t, g, nothing).Code) // the key is held
			}
		}))
		primary.Fail(errOutage)
		send(t, g, nothing)
		primary.Fail(nil)
		time.Sleep(time.Second)
		send(t, g, nothing)
		assert.Equal(t, 2, inside)
	})
}
