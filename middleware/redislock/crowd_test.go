package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
)

// However many of a process wait for a key, one of them asks.
func TestOneContenderPerProcess(t *testing.T) {
	server := redistest.Start(t)
	l, peer := open(t, server.Client()), open(t, server.Client())
	held := acquire(t, peer, "key", lock.Options{})
	before := server.Commands("evalsha", "eval")
	start := time.Now()
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			_, err := l.Acquire(t.Context(), "key", lock.Options{Wait: 2 * time.Second})
			assert.ErrorIs(t, err, lock.ErrBusy)
		})
	}
	all.Wait()
	took := time.Since(start)
	after := server.Commands("evalsha", "eval")
	asked := after["evalsha"] + after["eval"] - before["evalsha"] - before["eval"]
	// Each contender begins with short pauses; a hundred of them would show.
	assert.Less(t, asked, int64(150), "in %v", took)
	require.NoError(t, held.Release(t.Context()))
}

// A lock that never expires is not one of ours; it does not make a waiter ask
// without a pause.
func TestForeignKeyWithoutTTL(t *testing.T) {
	server := redistest.Start(t)
	l := open(t, server.Client())
	require.NoError(t, server.Client().Set(t.Context(), lockKey("key"), "whose?", 0).Err())
	before := server.Commands("evalsha", "eval")
	_, err := l.Acquire(t.Context(), "key", lock.Options{Wait: time.Second})
	require.ErrorIs(t, err, lock.ErrBusy)
	after := server.Commands("evalsha", "eval")
	assert.Less(t, after["evalsha"]+after["eval"]-before["evalsha"]-before["eval"], int64(30))
}

// Tries that come while none of them has been sent share one round trip.
func TestTriesShareARoundTrip(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l, peer := open(t, dial(t, proxy.Addr())), open(t, server.Client())
	held := acquire(t, peer, "key", lock.Options{})
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))

	proxy.Delay(50 * time.Millisecond)
	before := server.Commands("evalsha", "eval")
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			_, err := l.Acquire(t.Context(), "key", lock.Options{})
			assert.ErrorIs(t, err, lock.ErrBusy)
		})
	}
	all.Wait()
	after := server.Commands("evalsha", "eval")
	// The first one's, and that of those who came while it was on its way; a
	// straggler may make it one more.
	assert.LessOrEqual(t, after["evalsha"]+after["eval"]-before["evalsha"]-before["eval"], int64(3))
	require.NoError(t, held.Release(t.Context()))
}

// An answer that was on its way before a try began may be older than the try: it
// must not be taken for the try's own.
func TestTryDoesNotShareAnOldAnswer(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l, peer := open(t, dial(t, proxy.Addr())), open(t, server.Client())
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	held := acquire(t, peer, "key", lock.Options{})
	proxy.Delay(50 * time.Millisecond)
	monitor := server.Monitor(t)

	old := make(chan error, 1)
	go func() {
		_, err := l.Acquire(t.Context(), "key", lock.Options{})
		old <- err
	}()
	require.Eventually(t, func() bool { return len(monitor.Calls().TopLevel()) > 0 }, patience, time.Millisecond)
	require.NoError(t, held.Release(t.Context()))
	lease, err := l.Acquire(t.Context(), "key", lock.Options{})
	require.NoError(t, err, "it was free before this try began")
	require.NoError(t, lease.Release(t.Context()))
	require.ErrorIs(t, <-old, lock.ErrBusy)
}

// The one that asks for all may leave; the others still get an answer, and one
// of them the lock.
func TestTryWhoseAskerLeaves(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l := open(t, dial(t, proxy.Addr()))
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	proxy.Delay(50 * time.Millisecond)
	for range 10 {
		asker, leave := context.WithCancelCause(t.Context())
		gone := fmt.Errorf("gone")
		var all sync.WaitGroup
		all.Go(func() {
			_, err := l.Acquire(asker, "key", lock.Options{})
			assert.ErrorIs(t, err, gone)
		})
		var granted, busy atomic.Int32
		for range 20 {
			all.Go(func() {
				lease, err := l.Acquire(t.Context(), "key", lock.Options{})
				if err == nil {
					granted.Add(1)
					assert.NoError(t, lease.Release(t.Context()))
				} else if assert.ErrorIs(t, err, lock.ErrBusy) {
					busy.Add(1)
				}
			})
		}
		leave(gone)
		all.Wait()
		require.EqualValues(t, 20, granted.Load()+busy.Load())
	}
	require.Empty(t, server.Keys("*:lock"))
}

// A pool that is too small for what is asked through it says so, in time.
func TestNoTripInTime(t *testing.T) {
	const callers = 1500 // more than are taken along in 0.8 s, by trips of 128
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), PoolSize: 1})
	defer client.Close()
	l := open(t, client)
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	proxy.Delay(100 * time.Millisecond)
	var all sync.WaitGroup
	var short atomic.Int32
	for i := range callers {
		all.Go(func() {
			start := time.Now()
			lease, err := l.Acquire(t.Context(), fmt.Sprint("key", i), lock.Options{})
			assert.Less(t, time.Since(start), 2*time.Second)
			if err != nil {
				assert.ErrorIs(t, err, lock.ErrBusy) // no outage
				assert.ErrorContains(t, err, "pool is too small")
				short.Add(1)
				return
			}
			assert.NoError(t, lease.Release(t.Context()))
		})
	}
	all.Wait()
	require.Positive(t, short.Load())
	require.Less(t, short.Load(), int32(callers))
	require.Empty(t, server.Keys("*:tombstones"), "nothing was sent for those")
}

// A crowd on one key does not keep the holder of another from releasing, with
// as few connections as there can be.
func TestL3_CrowdDoesNotStarveRelease(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 2})
	defer client.Close()
	l := open(t, client)
	var all sync.WaitGroup
	var served, busy atomic.Int32
	for range 2000 {
		all.Go(func() {
			start := time.Now()
			lease, err := l.Acquire(t.Context(), "key", lock.Options{Wait: 2 * time.Second, MaxQueue: 5000})
			if err != nil {
				assert.ErrorIs(t, err, lock.ErrBusy)
				assert.Less(t, time.Since(start), 4*time.Second)
				busy.Add(1)
				return
			}
			served.Add(1)
			start = time.Now()
			assert.NoError(t, lease.Release(context.WithoutCancel(t.Context())))
			assert.Less(t, time.Since(start), time.Second)
		})
	}
	all.Wait()
	t.Logf("%d served, %d denied", served.Load(), busy.Load())
	require.Greater(t, served.Load(), int32(100))
	require.Empty(t, server.Keys("*:lock"))
}

// Callers that come, wait, try and leave at random do not get into each other's
// way, on few connections.
func TestCancelStorm(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 2})
	defer client.Close()
	l, peer := open(t, client), open(t, server.Client())
	gone := fmt.Errorf("gone")
	var all sync.WaitGroup
	for i := range 2000 {
		all.Go(func() {
			ctx, leave := context.WithCancelCause(t.Context())
			defer leave(nil)
			leaves := i%3 == 0
			if leaves {
				time.AfterFunc(time.Duration(i%50)*time.Millisecond, func() { leave(gone) })
			}
			on := l
			if i%4 == 0 {
				on = peer
			}
			lease, err := on.Acquire(ctx, fmt.Sprint("key", i%20), lock.Options{Wait: time.Duration(i%5) * 100 * time.Millisecond})
			switch {
			case err == nil:
				assert.NoError(t, lease.Release(ctx))
			case leaves:
				assert.True(t, errors.Is(err, gone) || errors.Is(err, lock.ErrBusy) || errors.Is(err, lock.ErrQueueFull), "%v", err)
			default:
				assert.True(t, errors.Is(err, lock.ErrBusy) || errors.Is(err, lock.ErrQueueFull), "%v", err)
			}
		})
	}
	all.Wait()
	require.Empty(t, server.Keys("*:lock"))
}
