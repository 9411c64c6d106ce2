package peers_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
)

// limit is twice what redislock promises, and less than half of what a plain
// redsync takes.
const limit = 2 * time.Second

// outages in which nothing is answered and nothing fails.
var outages = []struct {
	name        string
	begin, over func(*redistest.Server, *redistest.Proxy)
}{
	{"black hole", func(_ *redistest.Server, p *redistest.Proxy) { p.BlackHole(true) }, func(_ *redistest.Server, p *redistest.Proxy) { p.BlackHole(false) }},
	{"stopped", func(s *redistest.Server, _ *redistest.Proxy) { s.Pause() }, func(s *redistest.Server, _ *redistest.Proxy) { s.Resume() }},
}

// L10: a caller that can wait for 200 ms waits for go-redis' read timeout, which
// is five seconds, whatever it calls; then go-redis sees that the deadline has
// passed, and does not try again. (ContextTimeoutEnabled, which is off by
// default, closes this one for deadlines, but not for a context that is
// cancelled.)
func TestHazardContextDoesNotBound(t *testing.T) {
	t.Parallel()
	for _, outage := range outages {
		t.Run("redsync/"+outage.name, func(t *testing.T) {
			t.Parallel()
			server, proxy := start(t)
			rs := newRedsync(t, dial(t, proxy.Addr(), redis.Options{}))
			held := rs.NewMutex("held", redsync.WithExpiry(longTTL))
			require.NoError(t, held.Lock())

			outage.begin(server, proxy)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			enough := time.After(limit)
			results := []<-chan error{
				begin(func() error { return rs.NewMutex("try").TryLockContext(ctx) }),
				begin(func() error { return rs.NewMutex("lock").LockContext(ctx) }),
				begin(func() error { _, err := held.ExtendContext(ctx); return err }),
				begin(func() error { _, err := held.UnlockContext(ctx); return err }),
			}
			<-enough
			for _, result := range results {
				assert.False(t, returned(result))
			}
			outage.over(server, proxy)
			for _, result := range results {
				_ = requireResult(t, result, patience)
			}
		})
		t.Run("redislock/"+outage.name, func(t *testing.T) {
			t.Parallel()
			server, proxy := start(t)
			l := newRedislock(t, dial(t, proxy.Addr(), redis.Options{}))
			held := acquire(t, l, "held", lock.Options{TTL: longTTL})

			outage.begin(server, proxy)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			acquires := []<-chan error{
				begin(func() error { _, err := l.Acquire(ctx, "try", lock.Options{}); return err }),
				begin(func() error { _, err := l.Acquire(ctx, "lock", lock.Options{Wait: longTTL}); return err }),
			}
			release := begin(func() error { return held.Release(ctx) })
			for _, result := range acquires {
				assert.ErrorIs(t, requireResult(t, result, limit), context.DeadlineExceeded)
			}
			assert.ErrorIs(t, requireResult(t, release, limit), lock.ErrUnavailable)
			outage.over(server, proxy)
		})
	}
}

// Nobody set a deadline. TryLock takes ten seconds, which are two read timeouts
// of go-redis, one for the command and one for the clean-up; Lock takes that 32
// times. redsync gives each command a twentieth of the TTL, but go-redis heeds
// that with ContextTimeoutEnabled only.
func TestHazardLongAnswers(t *testing.T) {
	t.Parallel()
	t.Run("redsync", func(t *testing.T) {
		t.Parallel()
		_, proxy := start(t)
		m := newRedsync(t, dial(t, proxy.Addr(), redis.Options{})).NewMutex("key")
		proxy.BlackHole(true)
		begun := time.Now()
		require.Error(t, requireResult(t, begin(m.TryLock), 2*patience))
		assert.Greater(t, time.Since(begun), 8*time.Second)
	})
	t.Run("redislock", func(t *testing.T) {
		t.Parallel()
		_, proxy := start(t)
		l := newRedislock(t, dial(t, proxy.Addr(), redis.Options{}))
		proxy.BlackHole(true)
		for _, wait := range []time.Duration{0, longTTL} {
			result := begin(func() error {
				_, err := l.Acquire(t.Context(), "key", lock.Options{Wait: wait})
				return err
			})
			require.ErrorIs(t, requireResult(t, result, limit), lock.ErrUnavailable)
		}
	})
}

// L23: a caller that waits until its deadline gets ErrFailed, whether somebody
// held the key all that time or there was no Redis. Only the last of all tries
// says why it failed.
func TestHazardOutageLooksHeld(t *testing.T) {
	t.Parallel()
	t.Run("redsync", func(t *testing.T) {
		t.Parallel()
		server, proxy := start(t)
		require.NoError(t, newRedsync(t, server.Client()).NewMutex("key", redsync.WithExpiry(longTTL)).Lock())
		rs := newRedsync(t, dial(t, proxy.Addr(), redis.Options{}))
		lockFor := func(d time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			return rs.NewMutex("key").LockContext(ctx)
		}
		require.Equal(t, redsync.ErrFailed, lockFor(500*time.Millisecond))
		proxy.Refuse(true)
		proxy.CutAll()
		require.Equal(t, redsync.ErrFailed, lockFor(500*time.Millisecond))
	})
	t.Run("redislock", func(t *testing.T) {
		t.Parallel()
		server, proxy := start(t)
		held := acquire(t, newRedislock(t, server.Client()), "key", lock.Options{TTL: longTTL})
		l := newRedislock(t, dial(t, proxy.Addr(), redis.Options{}))
		_, err := l.Acquire(t.Context(), "key", lock.Options{Wait: 500 * time.Millisecond})
		require.ErrorIs(t, err, lock.ErrBusy)
		proxy.Refuse(true)
		proxy.CutAll()
		_, err = l.Acquire(t.Context(), "key", lock.Options{Wait: 500 * time.Millisecond})
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.NotErrorIs(t, err, lock.ErrBusy)
		require.NoError(t, held.Release(t.Context()))
	})
}
