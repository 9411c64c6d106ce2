package redislock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// An outage is answered within a second, as what it is, and told of once.
func TestL23_OutageIsUnavailable(t *testing.T) {
	for _, outage := range []failure{killed, stopped, refused, blackHole, noReplies} {
		t.Run(outage.name, func(t *testing.T) {
			t.Parallel()
			b := startBackend(t)
			seen := new(guardtest.Events)
			l := open(t, dial(t, b.line.Addr()), redislock.WithObserver(seen.Observe))
			require.NoError(t, acquire(t, l, "warm", lock.Options{TTL: time.Second}).Release(t.Context()))

			outage.begin(t, b)
			for range 3 { // one after the other
				start := time.Now()
				_, err := l.Acquire(t.Context(), "key", lock.Options{TTL: time.Second})
				requireUnavailable(t, err, time.Since(start))
				start = time.Now()
				_, err = l.Acquire(t.Context(), "key", lock.Options{TTL: time.Second, Wait: time.Minute})
				requireUnavailable(t, err, time.Since(start))
			}
			var all sync.WaitGroup
			for i := range 50 { // and many at once: those behind the first get its answer
				all.Go(func() {
					start := time.Now()
					_, err := l.Acquire(t.Context(), "key", lock.Options{TTL: time.Second, Wait: time.Duration(i%2) * time.Minute})
					took := time.Since(start)
					assert.ErrorIs(t, err, lock.ErrUnavailable)
					assert.Less(t, took, time.Second)
				})
			}
			all.Wait()
			assert.Len(t, guardtest.Of[lock.BackendFailed](seen), 1)
			assert.Empty(t, guardtest.Of[lock.BackendRecovered](seen))

			outage.over(t, b)
			require.Eventually(t, func() bool {
				lease, err := l.Acquire(t.Context(), "key", lock.Options{TTL: time.Second, Wait: time.Second})
				if err == nil {
					require.NoError(t, lease.Release(t.Context()))
				}
				return err == nil && len(guardtest.Of[lock.BackendRecovered](seen)) == 1
			}, patience, 10*time.Millisecond)
			assert.Len(t, guardtest.Of[lock.BackendFailed](seen), 1)
		})
	}
}

// A connection that the server had closed is not an outage.
func TestCutConnectionsAreNoOutage(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	seen := new(guardtest.Events)
	l := open(t, dial(t, proxy.Addr()), redislock.WithObserver(seen.Observe))
	for range 20 {
		lease := acquire(t, l, "key", lock.Options{})
		proxy.CutAll()
		require.NoError(t, lease.Release(t.Context()))
		proxy.CutAll()
	}
	assert.Empty(t, guardtest.Of[lock.BackendFailed](seen))
}

// On a line on which three trips take longer than a call may, a cut is over soon.
func TestCutOnASlowLine(t *testing.T) {
	for _, poolSize := range []int{2, 20} {
		t.Run(fmt.Sprint("pool of ", poolSize), func(t *testing.T) {
			t.Parallel()
			b := startBackend(t)
			client := redis.NewClient(&redis.Options{Addr: b.line.Addr(), PoolSize: poolSize})
			t.Cleanup(func() { _ = client.Close() })
			l := open(t, client)
			b.line.Delay(140 * time.Millisecond)
			require.NoError(t, acquire(t, l, "warm", lock.Options{Wait: patience}).Release(t.Context()))
			b.line.CutAll()
			require.Eventually(t, func() bool {
				lease, err := l.Acquire(t.Context(), "key", lock.Options{Wait: patience})
				return err == nil && lease.Release(t.Context()) == nil
			}, 4*time.Second, time.Millisecond)
		})
	}
}

// An observer that panics is the observer's fault, and harms nobody else.
func TestObserverPanics(t *testing.T) {
	b := startBackend(t)
	seen := make(chan lock.Event, 10)
	l := open(t, dial(t, b.line.Addr()), redislock.WithObserver(func(_ context.Context, e lock.Event) {
		seen <- e
		panic("observer")
	}))
	held := acquire(t, l, "held", lock.Options{TTL: time.Second})
	refused.begin(t, b)
	_, err := l.Acquire(t.Context(), "key", lock.Options{Wait: time.Second})
	require.ErrorIs(t, err, lock.ErrUnavailable)
	require.IsType(t, lock.BackendFailed{}, <-seen)
	require.IsType(t, lock.Lost{}, <-seen) // in the background
	refused.over(t, b)
	require.ErrorIs(t, held.Release(t.Context()), lock.ErrLost)
	require.Eventually(t, func() bool {
		lease, err := l.Acquire(t.Context(), "key", lock.Options{Wait: patience})
		return err == nil && lease.Release(t.Context()) == nil
	}, patience, 10*time.Millisecond)
}
