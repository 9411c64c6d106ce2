package redislock_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
)

const longTTL = time.Minute // longer than any test: it frees nothing

// The acquire was carried out and its reply was lost: the key must not stay
// held by nobody.
func TestL2_AcquireWhoseReplyIsLost(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l := open(t, dial(t, proxy.Addr()))
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))

	proxy.DropReplies(true)
	start := time.Now()
	_, err := l.Acquire(t.Context(), "key", lock.Options{TTL: longTTL})
	requireUnavailable(t, err, time.Since(start))
	proxy.DropReplies(false)
	requireGone(t, server, "key")
}

// The acquire arrives long after its caller has given up, and after the clean-up
// for it: it must not take the lock for nobody.
func TestL2_AcquireThatArrivesLate(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l := open(t, dial(t, proxy.Addr()))
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	monitor := server.Monitor(t)

	proxy.Hold(true)
	start := time.Now()
	_, err := l.Acquire(t.Context(), "key", lock.Options{TTL: longTTL})
	requireUnavailable(t, err, time.Since(start))
	// The clean-up must not be held back as the acquire is, and it comes on a
	// connection of its own: those of before are cut only in their way there.
	proxy.Hold(false)

	var acquires, leaves int
	require.Eventually(t, func() bool {
		acquires, leaves = 0, 0
		for _, call := range monitor.Calls().TopLevel().Named("evalsha", "eval") {
			switch {
			case isAcquire(call):
				acquires++
			case isLeave(call):
				leaves++
			}
		}
		return acquires > 0 && leaves > 0
	}, patience, 10*time.Millisecond)
	requireGone(t, server, "key")
}

// As before, but the second attempt is told that another holds the lock: the
// caller is busy, and the first attempt must not take the lock later.
func TestL2_AcquireThatArrivesAfterABusyAnswer(t *testing.T) {
	for _, wait := range []time.Duration{0, 600 * time.Millisecond} {
		server := redistest.Start(t)
		slow := redistest.NewProxy(t, server.Addr())
		var direct atomic.Bool
		client := redis.NewClient(&redis.Options{
			PoolSize:    1,
			ReadTimeout: 150 * time.Millisecond,
			Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
				addr := slow.Addr()
				if direct.Load() {
					addr = server.Addr()
				}
				return new(net.Dialer).DialContext(ctx, network, addr)
			},
		})
		t.Cleanup(func() { _ = client.Close() })
		peer := open(t, server.Client())
		l := open(t, client)
		require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))

		held := acquire(t, peer, "key", lock.Options{TTL: longTTL})
		slow.Hold(true)
		direct.Store(true) // the second attempt is on a connection of its own
		_, err := l.Acquire(t.Context(), "key", lock.Options{TTL: longTTL, Wait: wait})
		require.ErrorIs(t, err, lock.ErrBusy)
		require.NoError(t, held.Release(t.Context()))
		slow.Hold(false)
		requireGone(t, server, "key")
	}
}

// requireGone waits until nobody holds key, and for longer than a stray command
// would take to change that.
func requireGone(t *testing.T, server *redistest.Server, key string) {
	t.Helper()
	var since time.Time
	require.Eventually(t, func() bool {
		switch n := server.Client().Exists(t.Context(), lockKey(key)).Val(); {
		case n != 0:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		default:
			return time.Since(since) > 700*time.Millisecond
		}
		return false
	}, patience, 10*time.Millisecond, "held by nobody")
}

// A token that was given up while its acquire was still on the way does not get
// the lock when it arrives.
func TestTombstone(t *testing.T) {
	server := redistest.Start(t)
	first := redistest.NewProxy(t, server.Addr())
	l := open(t, dial(t, first.Addr()))
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))

	monitor := server.Monitor(t)
	require.NoError(t, acquire(t, l, "key", lock.Options{TTL: longTTL}).Release(t.Context()))
	calls := monitor.Stop().TopLevel().Named("evalsha", "eval")
	require.Len(t, calls, 2)
	again := func(c redistest.Call, dead string) any {
		args := make([]any, len(c.Args))
		for i, a := range c.Args {
			args[i] = a
		}
		if dead != "" {
			args[len(args)-1] = dead
		}
		reply, err := server.Client().Do(t.Context(), args...).Result()
		require.NoError(t, err)
		return reply
	}
	acquireCall, leaveCall := calls[0], calls[1]

	// Without a tombstone the late acquire does harm; this is what it is for.
	reply := again(acquireCall, "")
	require.EqualValues(t, 1, reply.([]any)[0])
	require.EqualValues(t, 1, again(leaveCall, "10000"))
	require.EqualValues(t, -1, again(acquireCall, "").([]any)[0])
	require.Zero(t, server.Client().Exists(t.Context(), lockKey("key")).Val())
	// It goes by itself, and no sooner because of another one.
	require.EqualValues(t, -1, again(leaveCall, "5000"))
	ttl := server.Client().PTTL(t.Context(), "reqlock:{key}:tombstones").Val()
	assert.Greater(t, ttl, 7*time.Second)
	assert.LessOrEqual(t, ttl, 10*time.Second)
}

// Asked again with the same token, the holder gets its own lock and fence, and
// not a false no.
func TestAcquireAgainIsOwn(t *testing.T) {
	server := redistest.Start(t)
	l := open(t, server.Client())
	monitor := server.Monitor(t)
	lease := acquire(t, l, "key", lock.Options{TTL: longTTL})
	calls := monitor.Stop().TopLevel().Named("evalsha", "eval")
	var args []any
	for _, a := range calls[len(calls)-1].Args {
		args = append(args, a)
	}
	reply, err := server.Client().Do(t.Context(), args...).Slice()
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), int64(lease.Fence())}, reply)
	require.NoError(t, lease.Release(t.Context()))
}

// A release whose reply was lost has released; the caller is not told that its
// lease ran out.
func TestReleaseWhoseReplyIsLost(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l := open(t, dial(t, proxy.Addr()))
	lease := acquire(t, l, "key", lock.Options{TTL: longTTL})
	proxy.DropReplies(true)
	cut := time.AfterFunc(100*time.Millisecond, func() { proxy.DropReplies(false) })
	defer cut.Stop()
	require.NoError(t, lease.Release(t.Context()))
	requireGone(t, server, "key")
}

// A release that Redis does not hear is told as such, and made good later.
func TestReleaseDuringAnOutage(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l := open(t, dial(t, proxy.Addr()))
	lease := acquire(t, l, "key", lock.Options{TTL: longTTL})
	proxy.Refuse(true)
	proxy.CutAll()
	start := time.Now()
	err := lease.Release(t.Context())
	requireUnavailable(t, err, time.Since(start))
	require.Equal(t, err, lease.Release(t.Context()))
	require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrReleased)
	require.EqualValues(t, 1, server.Client().Exists(t.Context(), lockKey("key")).Val())
	proxy.Refuse(false)
	requireGone(t, server, "key")
}

// L5, L15: a lease that ran out and one that was stolen are told apart, and
// neither release takes the key from its new holder.
func TestL5_L15_ExpiredAndStolen(t *testing.T) {
	server := redistest.Start(t)
	l, peer := open(t, server.Client()), open(t, server.Client())
	ctx := t.Context()

	gone := acquire(t, l, "gone", lock.Options{TTL: longTTL})
	require.NoError(t, server.Client().Del(ctx, lockKey("gone")).Err())
	err := gone.Release(ctx)
	require.ErrorIs(t, err, lock.ErrExpired)
	require.NotErrorIs(t, err, lock.ErrStolen)

	stolen := acquire(t, l, "stolen", lock.Options{TTL: longTTL})
	require.NoError(t, server.Client().Del(ctx, lockKey("stolen")).Err())
	successor := acquire(t, peer, "stolen", lock.Options{TTL: longTTL})
	err = stolen.Release(ctx)
	require.ErrorIs(t, err, lock.ErrStolen)
	require.False(t, errors.Is(err, lock.ErrExpired))
	require.Greater(t, successor.Fence(), stolen.Fence())
	require.EqualValues(t, 1, server.Client().Exists(ctx, lockKey("stolen")).Val())
	require.NoError(t, successor.Release(ctx))
}
