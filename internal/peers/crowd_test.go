package peers_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

// L3: those who wait for a key ask through the connections with which its
// holder gives it back. A release has to queue behind them, for as long as
// redsync lets each of them wait: a twentieth of the TTL, which is 0.4 s at
// redsync's default and 3 s here. A release that has less time is never sent,
// and the key stays until its TTL has passed.
func TestHazardCrowdStarvesRelease(t *testing.T) {
	const waiters = 1000
	few := redis.Options{PoolSize: 2}
	oneWay := 5 * time.Millisecond
	t.Run("redsync", func(t *testing.T) {
		server, proxy := start(t)
		client := dial(t, proxy.Addr(), few)
		rs := newRedsync(t, client)
		newMutex := func() *redsync.Mutex { return rs.NewMutex("key", redsync.WithExpiry(longTTL)) }
		held := newMutex()
		require.NoError(t, held.Lock())
		proxy.Delay(oneWay)
		var crowd sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		for range waiters {
			crowd.Go(func() { assert.Error(t, newMutex().LockContext(ctx)) })
		}
		require.Eventually(t, func() bool { return client.PoolStats().PendingRequests > waiters*3/4 }, patience, time.Millisecond)

		bounded, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := held.UnlockContext(bounded)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Greater(t, server.Client().PTTL(t.Context(), "key").Val(), longTTL/2)
		leave()
		crowd.Wait()
	})
	t.Run("redislock", func(t *testing.T) {
		_, proxy := start(t)
		l := newRedislock(t, dial(t, proxy.Addr(), few))
		held := acquire(t, l, "key", lock.Options{TTL: longTTL})
		proxy.Delay(oneWay)
		var crowd sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		for range waiters {
			crowd.Go(func() {
				lease, err := l.Acquire(ctx, "key", lock.Options{TTL: longTTL, Wait: longTTL, MaxQueue: waiters})
				if err == nil {
					assert.NoError(t, lease.Release(ctx))
					return
				}
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		require.Eventually(t, func() bool {
			_, err := l.Acquire(t.Context(), "key", lock.Options{})
			busy, ok := errors.AsType[*lock.BusyError](err)
			return ok && busy.Ahead > waiters*3/4
		}, patience, time.Millisecond)

		begun := time.Now()
		assert.NoError(t, held.Release(t.Context()))
		assert.Less(t, time.Since(begun), time.Second)
		leave()
		crowd.Wait()
	})
}
