package memlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// foreign is a lease of another Locker.
type foreign struct {
	lock.Lease
	key   string
	fence uint64
	ctx   context.Context
}

func (l *foreign) Key() string              { return l.key }
func (l *foreign) Fence() uint64            { return l.fence }
func (l *foreign) Context() context.Context { return l.ctx }

// under returns the context of a foreign lease.
func under(t *testing.T, key string, fence uint64) context.Context {
	l := &foreign{key: key, fence: fence}
	l.ctx = lock.NewContext(t.Context(), l)
	return l.ctx
}

func now(ahead time.Duration) uint64 { return uint64(time.Now().Add(ahead).UnixMicro()) }

func fenceUnder(t *testing.T, l *memlock.Locker, ctx context.Context, key string) uint64 {
	t.Helper()
	lease, err := l.Acquire(ctx, key, lock.Options{})
	require.NoError(t, err)
	require.NoError(t, lease.Release(ctx))
	return lease.Fence()
}

// Fences follow the clock of the Locker whose lease was seen, ahead and behind.
func TestFencesFollowTheOtherLocker(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, time.Minute, 0, -time.Millisecond, -time.Minute, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			l := memlock.New()
			seen := now(ahead)
			time.Sleep(time.Microsecond) // on the way
			require.GreaterOrEqual(t, fenceUnder(t, l, under(t, "key", seen), "key"), seen)
			time.Sleep(time.Minute)
			fence := fenceOf(t, l)
			require.Greater(t, fence, seen)
			require.Less(t, fence, now(ahead), "below what the other one gives out next")
			require.Equal(t, now(ahead-time.Microsecond), fence)
		})
	}
}

// The greatest lead counts, until one that is lower by more than a second.
func TestFencesFollowTheGreatestLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlock.New()
		for _, tt := range []struct{ seen, want time.Duration }{
			{10 * time.Second, 10 * time.Second},
			{9500 * time.Millisecond, 10 * time.Second}, // under way for long
			{10*time.Second + 1e6, 10*time.Second + 1e6},
			{9 * time.Second, 9 * time.Second},
			{time.Hour, time.Hour},
			{-time.Hour, -time.Hour},
			{-time.Hour - time.Second, -time.Hour},
			{-time.Hour + 1e6, -time.Hour + 1e6},
		} {
			before := fenceOf(t, l)
			first := fenceUnder(t, l, under(t, "key", now(tt.seen)), "key")
			require.Greater(t, first, before, "it rises all the same")
			time.Sleep(3 * time.Hour) // until the clock has caught up
			require.Equal(t, now(tt.want), fenceOf(t, l))
		}
	})
}

// What tells nothing of another clock is not looked at.
func TestFencesThatTellNothing(t *testing.T) {
	tests := []struct {
		name string
		ctx  func(*testing.T, *memlock.Locker) context.Context
	}{
		{"of another key", func(t *testing.T, _ *memlock.Locker) context.Context { return under(t, "other", now(time.Hour)) }},
		{"none", func(t *testing.T, _ *memlock.Locker) context.Context { return under(t, "key", 0) }},
		{"without room above it", func(t *testing.T, _ *memlock.Locker) context.Context { return under(t, "key", 1<<53-1) }},
		{"none at all", func(t *testing.T, _ *memlock.Locker) context.Context { return t.Context() }},
		{"of a lease that has ended", func(t *testing.T, _ *memlock.Locker) context.Context {
			l := &foreign{key: "key", fence: now(time.Hour)}
			inner, cancel := context.WithCancel(t.Context())
			cancel()
			l.ctx = lock.NewContext(inner, l)
			return context.WithoutCancel(l.ctx)
		}},
		{"its own, given back", func(t *testing.T, l *memlock.Locker) context.Context {
			own, err := l.Acquire(t.Context(), "key", lock.Options{})
			require.NoError(t, err)
			require.NoError(t, own.Release(t.Context()))
			time.Sleep(time.Minute)
			return context.WithoutCancel(own.Context())
		}},
		{"its own, of another key", func(t *testing.T, l *memlock.Locker) context.Context {
			own, err := l.Acquire(t.Context(), "other", lock.Options{})
			require.NoError(t, err)
			time.Sleep(time.Minute)
			return own.Context()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memlock.New()
				ctx := tt.ctx(t, l)
				require.Equal(t, now(0), fenceUnder(t, l, ctx, "key"))
				time.Sleep(time.Minute)
				require.Equal(t, now(0), fenceOf(t, l))
			})
		})
	}
}

// A fence is as old as the question: the wait for the key is no part of that.
func TestFencesAreSeenBeforeTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlock.New()
		held, err := l.Acquire(t.Context(), "key", lock.Options{})
		require.NoError(t, err)
		time.AfterFunc(time.Minute, func() { _ = held.Release(t.Context()) })
		lease, err := l.Acquire(under(t, "key", now(time.Hour)), "key", lock.Options{Wait: time.Hour})
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		require.Equal(t, now(time.Hour), fenceOf(t, l))
	})
}

// A lease beside another Locker's has the same fence, unless somebody without one was
// given the key first, and a greater fence with it.
func TestFencesBesideAnotherLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlock.New()
		require.Equal(t, now(0), fenceUnder(t, l, under(t, "key", now(0)), "key"))
		time.Sleep(time.Second)
		seen := now(0)
		time.Sleep(time.Millisecond)
		alone := fenceOf(t, l)
		require.Equal(t, now(0), alone)
		require.Greater(t, fenceUnder(t, l, under(t, "key", seen), "key"), alone)
		time.Sleep(time.Second)
		require.Equal(t, now(0), fenceUnder(t, l, under(t, "key", now(0)), "key"))
	})
}

// Below 1<<53 whatever was seen, and rising.
func TestFencesStayInTheirBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlock.New()
		last := uint64(0)
		for _, seen := range []uint64{1, 1 << 52, 1<<52 + 1, 1<<53 - 1, 1 << 53, 1<<64 - 1, 1} {
			for range 3 {
				require.Less(t, fenceUnder(t, l, under(t, "key", seen), "key"), uint64(1<<53))
				fence := fenceOf(t, l)
				require.Greater(t, fence, last)
				require.Less(t, fence, uint64(1<<53))
				last = fence
				time.Sleep(time.Hour)
			}
		}
	})
}

func TestLookingAtFencesCostsNothing(t *testing.T) {
	l := memlock.New()
	pair := func(ctx context.Context) float64 {
		return testing.AllocsPerRun(100, func() {
			lease, err := l.Acquire(ctx, "key", lock.Options{})
			if err != nil {
				t.Fatal(err)
			}
			_ = lease.Release(ctx)
		})
	}
	require.Equal(t, pair(t.Context()), pair(under(t, "key", now(time.Hour))))
}
