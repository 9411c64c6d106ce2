package peers_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

// L6: the holder asks for more time and hears nothing. Its key goes to somebody
// else while Extend still waits, which it does for ten seconds, two attempts of
// go-redis; it has no bound of its own. Nothing else tells the holder, unless it looks at Until and a clock.
func TestHazardExtensionOutlastsLease(t *testing.T) {
	t.Parallel()
	ttl := 5 * time.Second
	t.Run("redsync", func(t *testing.T) {
		t.Parallel()
		server, proxy := start(t)
		rs := newRedsync(t, dial(t, proxy.Addr(), redis.Options{}))
		m := rs.NewMutex("key", redsync.WithExpiry(ttl))
		require.NoError(t, m.Lock())

		proxy.BlackHole(true)
		extension := begin(func() error { _, err := m.Extend(); return err })
		peer := newRedsync(t, server.Client()).NewMutex("key", redsync.WithTries(1000))
		require.NoError(t, peer.Lock())
		assert.False(t, returned(extension), "it is told of its loss")
		proxy.BlackHole(false)
		requireTaken(t, requireResult(t, extension, patience))
	})
	t.Run("redislock", func(t *testing.T) {
		t.Parallel()
		server, proxy := start(t)
		l := newRedislock(t, dial(t, proxy.Addr(), redis.Options{}))
		peer := newRedislock(t, server.Client())
		lease := acquire(t, l, "key", lock.Options{TTL: ttl})

		proxy.BlackHole(true)
		next := acquire(t, peer, "key", lock.Options{Wait: 2 * ttl})
		assert.ErrorIs(t, context.Cause(lease.Context()), lock.ErrLost)
		require.ErrorIs(t, lease.Release(t.Context()), lock.ErrLost)
		require.NoError(t, next.Release(t.Context()))
	})
}

// The lock is lost, by an eviction, an operator or a restart without data, and
// somebody else has held it since. Extend finds the key free.
//
// A plain mutex says that it could not extend. WithSetNXOnExtend, which is
// offered for servers that restart often, takes the key again and reports
// success: the holder never learns that it was not alone.
func TestHazardSilentReacquisition(t *testing.T) {
	t.Parallel()
	plain := []struct {
		name    string
		options []redsync.Option
		silent  bool
	}{
		{"redsync", nil, false},
		{"redsync with WithSetNXOnExtend", []redsync.Option{redsync.WithSetNXOnExtend()}, true},
	}
	for _, c := range plain {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server, _ := start(t)
			rs := newRedsync(t, server.Client())
			m := rs.NewMutex("key", c.options...)
			require.NoError(t, m.Lock())
			require.NoError(t, server.Client().Del(t.Context(), "key").Err())
			other := rs.NewMutex("key")
			require.NoError(t, other.Lock())
			_, err := other.Unlock()
			require.NoError(t, err)

			extended, err := m.Extend()
			if !c.silent {
				require.False(t, extended)
				requireTaken(t, err)
				require.Empty(t, server.Keys("key"))
				return
			}
			require.NoError(t, err)
			require.True(t, extended)
			require.Equal(t, m.Value(), server.Client().Get(t.Context(), "key").Val())
		})
	}
	t.Run("redislock", func(t *testing.T) {
		t.Parallel()
		server, _ := start(t)
		l, peer := newRedislock(t, server.Client()), newRedislock(t, server.Client())
		lease := acquire(t, l, "key", lock.Options{TTL: 3 * time.Second})
		require.NoError(t, server.Client().Del(t.Context(), lockKey).Err())
		other := acquire(t, peer, "key", lock.Options{})
		require.NoError(t, other.Release(t.Context()))

		select {
		case <-lease.Context().Done():
		case <-time.After(patience):
		}
		require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrLost)
		require.Empty(t, server.Keys("*:lock"))
	})
}

// L9: Valid asks Redis and says what was true when Redis answered, even where
// the lock has run out by the time the answer is there. It is deprecated for
// that; Until, with the caller's own look at the clock, is right, and so is what
// Lock and Extend report: all of them count from before the command was sent.
func TestHazardValidTooLate(t *testing.T) {
	t.Parallel()
	ttl, oneWay := 2*time.Second, 1500*time.Millisecond
	t.Run("redsync", func(t *testing.T) {
		t.Parallel()
		_, proxy := start(t)
		rs := newRedsync(t, dial(t, proxy.Addr(), redis.Options{}))
		m := rs.NewMutex("key", redsync.WithExpiry(ttl))
		require.NoError(t, m.Lock())
		proxy.Delay(oneWay)
		//lint:ignore SA1019 the hazard is in what is deprecated
		valid, err := m.Valid()
		require.NoError(t, err)
		require.True(t, valid)
		require.Less(t, m.Until(), time.Now())
	})
	t.Run("redislock", func(t *testing.T) {
		t.Parallel()
		server, proxy := start(t)
		l := newRedislock(t, dial(t, proxy.Addr(), redis.Options{}))
		proxy.Delay(100 * time.Millisecond)
		_, err := l.Acquire(t.Context(), "key", lock.Options{TTL: 150 * time.Millisecond})
		require.ErrorIs(t, err, lock.ErrUnavailable, "granted, and answered when it was over")
		require.Eventually(t, func() bool { return len(server.Keys(lockKey)) == 0 }, patience, time.Millisecond)
	})
}
