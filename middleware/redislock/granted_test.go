package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// enqueueBehind has l, which holds "key", wait for it once more.
func enqueueBehind(ctx context.Context, t *testing.T, l *redislock.Locker, o lock.Options) <-chan grant {
	t.Helper()
	grants := acquireLater(ctx, l, o)
	awaitAhead(t, l, 2)
	return grants
}

// However the waiter learns of its grant, its lease is over for it when it is
// for Redis.
func TestGrantLastsNoLongerThanInRedis(t *testing.T) {
	const ttl = 3 * time.Second
	grants := []struct {
		name  string
		spoil func(*redistest.Proxy)
	}{
		{"message late", func(line *redistest.Proxy) { line.Late("inbox:", ttl/3-200*time.Millisecond) }}, // just before it asks again
		{"message lost", func(line *redistest.Proxy) { line.Lose("inbox:") }},
	}
	for _, g := range grants {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			line := redistest.NewProxy(t, server.Addr())
			holder, waiter := open(t, server.Client()), open(t, dial(t, line.Addr()))
			lease := acquire(t, holder, "key", lock.Options{TTL: longTTL})
			turn := enqueue(t.Context(), t, server, waiter, 0, lock.Options{TTL: ttl})
			g.spoil(line)
			require.NoError(t, lease.Release(t.Context()))
			next := requireGranted(t, turn, ttl/3+soon)
			line.BlackHole(true) // it is not renewed
			after := acquire(t, holder, "key", lock.Options{TTL: longTTL, Wait: patience})
			require.ErrorIs(t, context.Cause(next.Context()), lock.ErrExpired, "two hold the key")
			line.BlackHole(false)
			_ = next.Release(t.Context())
			require.NoError(t, after.Release(t.Context()))
		})
	}
}

// Who was entered by the caller before it, and has asked nothing itself, takes
// its place along when it leaves.
func TestLeaverThatWasEnteredLeavesNoGhost(t *testing.T) {
	server := redistest.Start(t)
	l, peer := open(t, server.Client(), redislock.WithHandoff(1)), open(t, server.Client())
	// l hears of grants: it waited for another process before.
	lease := acquire(t, peer, "key", lock.Options{TTL: longTTL})
	turn := enqueue(t.Context(), t, server, l, 0, lock.Options{TTL: longTTL})
	require.NoError(t, lease.Release(t.Context()))
	lease = requireGranted(t, turn, soon)

	turn = enqueue(t.Context(), t, server, peer, 0, lock.Options{TTL: longTTL})
	ctx, leave := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	leaver := enqueueBehind(ctx, t, l, lock.Options{TTL: longTTL, Wait: time.Minute})
	require.NoError(t, lease.Release(t.Context()))
	other := requireGranted(t, turn, soon)
	awaitQueue(t, server, 1)
	pause(50 * time.Millisecond) // it has its turn, and waits
	leave(gone)
	require.ErrorIs(t, (<-leaver).err, gone)
	require.Eventually(t, func() bool { return waiting(t, server) == 0 }, patience, time.Millisecond)
	require.NoError(t, other.Release(t.Context()))
	requireGone(t, server, "key")
}

// Who is told of its lease has the fence that Redis gave out, and no other.
func TestFencesGoOnThroughHandoffs(t *testing.T) {
	server := redistest.Start(t)
	a, b := open(t, server.Client()), open(t, server.Client())
	const ahead, block = uint64(1)<<52 + 1, 64
	require.NoError(t, server.Client().Set(t.Context(), "reqlock:{key}:fence", ahead, 0).Err())
	lease := acquire(t, a, "key", lock.Options{TTL: longTTL})
	for i := range uint64(5) {
		require.Equal(t, ahead+1+i*block, lease.Fence())
		turn := enqueue(t.Context(), t, server, b, 0, lock.Options{TTL: longTTL})
		require.NoError(t, lease.Release(t.Context()))
		lease = requireGranted(t, turn, soon)
		a, b = b, a
	}
	require.NoError(t, lease.Release(t.Context()))
}

// A lease that came by a message, and one that came with the release before it,
// are renewed as one that was asked for is.
func TestGrantedLeaseIsRenewed(t *testing.T) {
	const ttl = time.Second
	for _, from := range []string{"another process", "the same process"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			a, b := open(t, server.Client(), redislock.WithHandoff(1)), open(t, server.Client())
			lease := acquire(t, a, "key", lock.Options{TTL: longTTL})
			var turn <-chan grant
			if from == "another process" {
				turn = enqueue(t.Context(), t, server, b, 0, lock.Options{TTL: ttl})
			} else {
				turn = enqueueBehind(t.Context(), t, a, lock.Options{TTL: ttl, Wait: time.Minute})
			}
			require.NoError(t, lease.Release(t.Context()))
			next := requireGranted(t, turn, soon)
			select {
			case <-next.Context().Done():
				require.Fail(t, "lost")
			case <-time.After(3 * ttl):
			}
			require.NoError(t, next.Release(t.Context()))
		})
	}
}

// What could not be cleaned up is, after an outage that takes much longer than an
// attempt: a lock that was not released, and a place in the queue.
func TestCleanUpOutlastsAnOutage(t *testing.T) {
	server := redistest.Start(t)
	line := redistest.NewProxy(t, server.Addr())
	l, peer := open(t, dial(t, line.Addr())), open(t, server.Client())
	mine := acquire(t, l, "mine", lock.Options{TTL: longTTL})
	theirs := acquire(t, peer, "key", lock.Options{TTL: longTTL})
	ctx, leave := context.WithCancelCause(t.Context())
	leaver := enqueue(ctx, t, server, l, 0, lock.Options{TTL: longTTL})
	line.Refuse(true)
	line.CutAll()
	require.ErrorIs(t, mine.Release(t.Context()), lock.ErrUnavailable)
	leave(errors.New("gone"))
	require.Error(t, (<-leaver).err)
	pause(2 * time.Second) // an attempt takes 800 ms at most
	require.NotEmpty(t, server.Keys("*{mine}:lock"))
	require.NotEmpty(t, server.Keys("*{key}:queue"))
	line.Refuse(false)
	requireGone(t, server, "mine")
	require.Eventually(t, func() bool { return len(server.Keys("*{key}:queue")) == 0 }, patience, time.Millisecond)
	require.NoError(t, theirs.Release(t.Context()))
}
