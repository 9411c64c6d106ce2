package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
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

// A Dialer that does not care for its context, as the one for TLS, holds up
// neither an acquire nor a release.
func TestL10_DialThatIgnoresItsContext(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	var stuck atomic.Bool
	release := make(chan struct{})
	client := redis.NewClient(&redis.Options{Dialer: func(_ context.Context, network, _ string) (net.Conn, error) {
		if stuck.Load() {
			<-release
		}
		return net.Dial(network, proxy.Addr())
	}})
	defer client.Close()
	l := open(t, client)
	lease := acquire(t, l, "held", lock.Options{TTL: longTTL})
	stuck.Store(true)
	proxy.CutAll()
	for _, wait := range []time.Duration{0, 100 * time.Millisecond, time.Minute} {
		start := time.Now()
		_, err := l.Acquire(t.Context(), "key", lock.Options{Wait: wait})
		requireUnavailable(t, err, time.Since(start))
	}
	start := time.Now()
	err := lease.Release(t.Context())
	requireUnavailable(t, err, time.Since(start))
	close(release)
	stuck.Store(false)
	requireGone(t, server, "held")
}

// Nobody holds anything, so nobody is busy: also where the wait is over before
// the one ahead has found out.
func TestL23_WaitShorterThanItTakesToNotice(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l := open(t, dial(t, proxy.Addr()))
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	proxy.BlackHole(true)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			start := time.Now()
			_, err := l.Acquire(t.Context(), "key", lock.Options{Wait: 20 * time.Millisecond})
			assert.ErrorIs(t, err, lock.ErrUnavailable)
			assert.Less(t, time.Since(start), time.Second)
		})
	}
	all.Wait()
	proxy.BlackHole(false)
}

// However many requests are there for however few connections: a server that
// does not answer costs each of them less than a second, and one that answers
// again nobody.
func TestL23_CrowdMeetsAnOutage(t *testing.T) {
	for _, poolSize := range []int{1, 10} {
		t.Run(fmt.Sprint("pool of ", poolSize), func(t *testing.T) {
			b := startBackend(t)
			client := redis.NewClient(&redis.Options{Addr: b.line.Addr(), PoolSize: poolSize})
			t.Cleanup(func() { _ = client.Close() })
			l := open(t, client)
			require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
			b.line.BlackHole(true)
			for range 2 { // as it begins, and once it is known
				var all sync.WaitGroup
				for i := range 300 {
					all.Go(func() {
						start := time.Now()
						_, err := l.Acquire(t.Context(), fmt.Sprint("key", i), lock.Options{Wait: time.Duration(i%3) * 10 * time.Second})
						assert.ErrorIs(t, err, lock.ErrUnavailable)
						assert.Less(t, time.Since(start), time.Second)
					})
				}
				all.Wait()
			}
			b.line.BlackHole(false)
			require.Eventually(t, func() bool {
				lease, err := l.Acquire(t.Context(), "back", lock.Options{})
				return err == nil && lease.Release(t.Context()) == nil
			}, patience, time.Millisecond)
			b.line.Delay(10 * time.Millisecond)
			crowd(t, l, 40)
		})
	}
}

// A caller whose context ends while its question is under way is told that, and
// not what the answer was.
func TestDoneContextIsNotBusy(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l, peer := open(t, dial(t, proxy.Addr())), open(t, server.Client())
	held := acquire(t, peer, "key", lock.Options{TTL: longTTL})
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	proxy.Delay(100 * time.Millisecond)
	gone := errors.New("gone")
	for _, wait := range []time.Duration{0, 20 * time.Millisecond} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(gone) })
		_, err := l.Acquire(ctx, "key", lock.Options{Wait: wait})
		require.ErrorIs(t, err, gone)
		require.NotErrorIs(t, err, lock.ErrBusy)
	}
	require.NoError(t, held.Release(t.Context()))
}

// More callers than one trip takes along wait for the next, as long as they are
// willing to wait; the server is well, and nobody is told otherwise.
func TestCrowdOnASlowLinkIsNoOutage(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), PoolSize: 2})
	defer client.Close()
	seen := new(guardtest.Events)
	l := open(t, client, redislock.WithObserver(seen.Observe))
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	proxy.Delay(60 * time.Millisecond)
	crowd(t, l, 1000) // eight trips, one at a time: the last wait for longer than a call takes
	require.Empty(t, seen.All())
}

// One key that cannot be cleaned up does not hold up the others.
func TestCleanUpIsByKey(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l := open(t, dial(t, proxy.Addr()))
	ctx := t.Context()
	poisoned := acquire(t, l, "poisoned", lock.Options{TTL: longTTL})
	other := acquire(t, l, "other", lock.Options{TTL: longTTL})
	proxy.Refuse(true)
	proxy.CutAll()
	require.ErrorIs(t, poisoned.Release(ctx), lock.ErrUnavailable)
	require.ErrorIs(t, other.Release(ctx), lock.ErrUnavailable)
	require.NoError(t, server.Client().Set(ctx, "reqlock:{poisoned}:tombstones", "not a zset", 0).Err())
	proxy.Refuse(false)
	requireGone(t, server, "other")
}

// What limits the application's own traffic does not limit renewals.
func TestLimiterOfTheApplication(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Limiter: noMore{}})
	defer client.Close()
	l := open(t, client)
	require.NoError(t, acquire(t, l, "key", lock.Options{}).Release(t.Context()))
}

type noMore struct{}

func (noMore) Allow() error       { return errors.New("no more") }
func (noMore) ReportResult(error) {}

// Close in the middle of traffic looks like nothing else to an operator.
func TestCloseUnderTraffic(t *testing.T) {
	server := redistest.Start(t)
	for range 10 {
		seen := new(guardtest.Events)
		l := open(t, server.Client(), redislock.WithObserver(seen.Observe))
		var all sync.WaitGroup
		var pairs atomic.Int32
		for i := range 20 {
			all.Go(func() {
				for {
					lease, err := l.Acquire(t.Context(), fmt.Sprint("key", i%10), lock.Options{Wait: time.Minute})
					if err != nil {
						assert.ErrorIs(t, err, lock.ErrUnavailable)
						return
					}
					_ = lease.Release(t.Context())
					pairs.Add(1)
				}
			})
		}
		require.Eventually(t, func() bool { return pairs.Load() > 100 }, patience, time.Millisecond)
		require.NoError(t, l.Close())
		all.Wait()
		require.Empty(t, guardtest.Of[lock.BackendFailed](seen))
		require.NoError(t, server.Client().FlushAll(t.Context()).Err())
	}
}

// A caller that leaves while it waits for a trip takes nobody with it; and a try
// behind one that waits is answered without waiting as long.
func TestNoTripIsNobodyElsesBusiness(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), PoolSize: 1})
	defer client.Close()
	l := open(t, client)
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	proxy.Delay(100 * time.Millisecond)
	var all sync.WaitGroup
	for i := range 1500 { // one trip at a time takes 128 along: more than two seconds
		all.Go(func() {
			lease, err := l.Acquire(t.Context(), fmt.Sprint("other", i), lock.Options{Wait: patience})
			if assert.NoError(t, err) {
				assert.NoError(t, lease.Release(t.Context()))
			}
		})
	}
	gone := errors.New("gone")
	leaver, leave := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { leave(gone) })
	_, err := l.Acquire(leaver, "key", lock.Options{Wait: patience})
	require.ErrorIs(t, err, gone)

	for range 5 {
		all.Go(func() { // one of them is ahead, and waits for a trip
			lease, err := l.Acquire(t.Context(), "key", lock.Options{Wait: patience})
			if assert.NoError(t, err) {
				assert.NoError(t, lease.Release(t.Context()))
			}
		})
	}
	for range 5 {
		all.Go(func() {
			start := time.Now()
			lease, err := l.Acquire(t.Context(), "key", lock.Options{})
			assert.Less(t, time.Since(start), 2*time.Second)
			if err == nil {
				assert.NoError(t, lease.Release(t.Context()))
			}
		})
	}
	all.Wait()
}

// However many are released at once, those that are held are renewed.
func TestReleasesDoNotStarveRenewals(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), PoolSize: 2})
	defer client.Close()
	l := open(t, client)
	held := acquire(t, l, "held", lock.Options{TTL: time.Second})
	leases := make([]lock.Lease, 600)
	for i := range leases {
		leases[i] = acquire(t, l, fmt.Sprint("key", i), lock.Options{TTL: longTTL})
	}
	proxy.Delay(100 * time.Millisecond)
	var all sync.WaitGroup
	for _, lease := range leases { // six trips, one at a time, last for longer than the TTL
		all.Go(func() { assert.NoError(t, lease.Release(t.Context())) })
	}
	all.Wait()
	require.NoError(t, context.Cause(held.Context()))
	require.NoError(t, held.Release(t.Context()))
}
