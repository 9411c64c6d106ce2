package peers_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
)

// L2: the caller gives up while its command is on the way. redsync cleans up
// with the same context, which is done, so nothing is sent; the command arrives
// all the same, and the key is held by nobody until its TTL has passed.
//
// go-redis' default is to wait for the reply until its read timeout, whatever
// the context says. ContextTimeoutEnabled makes it leave in time, and leaves
// the key behind the sooner.
func TestHazardAcquireLeavesKey(t *testing.T) {
	t.Parallel()
	plain := []struct {
		name   string
		client redis.Options
	}{
		{"redsync", redis.Options{}},
		{"redsync with ContextTimeoutEnabled", redis.Options{ContextTimeoutEnabled: true}},
	}
	for _, c := range plain {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server, proxy := start(t)
			rs := newRedsync(t, dial(t, proxy.Addr(), c.client))
			m := rs.NewMutex("key", redsync.WithExpiry(longTTL))

			proxy.Hold(true)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			require.Error(t, m.LockContext(ctx))
			proxy.Hold(false)
			require.Eventually(t, func() bool { return len(server.Keys("key")) == 1 }, patience, time.Millisecond)

			_, err := m.Unlock()
			requireTaken(t, err) // it has not kept the token
			peer := newRedsync(t, server.Client()).NewMutex("key", redsync.WithTries(5))
			requireTaken(t, peer.Lock())
			assert.Greater(t, server.Client().PTTL(t.Context(), "key").Val(), longTTL/2)
		})
	}
	t.Run("redislock", func(t *testing.T) {
		t.Parallel()
		server, proxy := start(t)
		l := newRedislock(t, dial(t, proxy.Addr(), redis.Options{}))
		peer := newRedislock(t, server.Client())
		monitor := server.Monitor(t)

		proxy.Hold(true)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := l.Acquire(ctx, "key", lock.Options{TTL: longTTL, Wait: longTTL})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		proxy.Hold(false)
		require.Eventually(t, func() bool { // the acquire has arrived: it alone brings a fence
			for _, call := range monitor.Calls().TopLevel() {
				if slices.Contains(call.Args, "reqlock:{key}:fence") {
					return true
				}
			}
			return false
		}, patience, 10*time.Millisecond)

		lease := acquire(t, peer, "key", lock.Options{Wait: patience})
		require.NoError(t, lease.Release(t.Context()))
		require.Empty(t, server.Keys("*:lock"))
	})
}

// The lock was acquired, and the reply lost with its connection. go-redis sends
// the SET NX once more, which finds the key that the first one has set, and
// redsync reports it as taken, though nobody else has ever held it. It then
// cleans up, so that a Lock with tries left would get the key after all.
func TestHazardFalseTaken(t *testing.T) {
	t.Parallel()
	t.Run("redsync", func(t *testing.T) {
		t.Parallel()
		server, proxy := start(t)
		rs := newRedsync(t, dial(t, proxy.Addr(), redis.Options{}))
		m := rs.NewMutex("key", redsync.WithExpiry(longTTL))

		proxy.DropReplies(true)
		result := begin(m.TryLock)
		require.Eventually(t, func() bool { return len(server.Keys("key")) == 1 }, patience, time.Millisecond)
		cut(proxy)
		requireTaken(t, requireResult(t, result, patience))
		require.Empty(t, server.Keys("key"))
	})
	t.Run("redislock", func(t *testing.T) {
		t.Parallel()
		server, proxy := start(t)
		l := newRedislock(t, dial(t, proxy.Addr(), redis.Options{}))

		proxy.DropReplies(true)
		var lease lock.Lease
		result := begin(func() (err error) {
			lease, err = l.Acquire(t.Context(), "key", lock.Options{TTL: longTTL})
			return err
		})
		require.Eventually(t, func() bool { return len(server.Keys(lockKey)) == 1 }, patience, time.Millisecond)
		cut(proxy)
		// It asks again and finds its own lock. Where that took too long it does
		// not know, and says so.
		if err := requireResult(t, result, patience); err != nil {
			require.ErrorIs(t, err, lock.ErrUnavailable)
			require.NotErrorIs(t, err, lock.ErrBusy)
			return
		}
		require.NoError(t, lease.Release(t.Context()))
	})
}

// cut ends the connections whose replies are dropped, also where a reply is not
// there yet, and has new ones work.
func cut(proxy *redistest.Proxy) {
	proxy.Hold(true)
	proxy.CutAll()
	proxy.DropReplies(false)
	proxy.Hold(false)
}
