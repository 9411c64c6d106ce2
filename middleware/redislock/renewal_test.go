package redislock_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

func TestL6_LostLeaseEndsItsContextBeforeRedisDoes(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	seen := new(guardtest.Events)
	l := open(t, dial(t, proxy.Addr()), redislock.WithObserver(seen.Observe))
	lease := acquire(t, l, "key", lock.Options{TTL: 5 * time.Second})
	proxy.BlackHole(true)
	left := server.Client().PTTL(t.Context(), lockKey("key")).Val()
	expires := time.Now().Add(left)
	require.ErrorIs(t, awaitEnd(t, lease), lock.ErrExpired)
	assert.Less(t, time.Now(), expires, "Redis may have given the key away before")
	require.ErrorIs(t, lease.Release(t.Context()), lock.ErrExpired)
	require.Eventually(t, func() bool { return len(guardtest.Of[lock.Lost](seen)) == 1 }, patience, time.Millisecond)
	proxy.BlackHole(false)
}

func TestL12_RenewalOutlivesTransientErrors(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l := open(t, dial(t, proxy.Addr()))
	ttl := 3 * time.Second
	lease := acquire(t, l, "key", lock.Options{TTL: ttl})
	monitor := server.Monitor(t)
	renewed := func() (n int) {
		for _, c := range monitor.Calls().TopLevel().Named("evalsha", "eval") {
			if c.Args[2] == "3" { // keys
				n++
			}
		}
		return n
	}
	for range 2 {
		proxy.Refuse(true) // when the next renewal is due, for less than the lease has left
		proxy.CutAll()
		refused := time.NewTimer(ttl / 3)
		<-refused.C
		proxy.Refuse(false)
		before := renewed()
		require.Eventually(t, func() bool { return renewed() > before }, patience, time.Millisecond)
	}
	require.NoError(t, lease.Context().Err())
	require.Eventually(t, func() bool { return tryFree(t, l) }, patience, time.Millisecond)
	require.NoError(t, lease.Release(t.Context()))
}

func TestL11_RenewalStopsBeforeRelease(t *testing.T) {
	server := redistest.Start(t)
	l := open(t, server.Client())
	monitor := server.Monitor(t)
	ttl := 300 * time.Millisecond
	for i := range 50 { // released at any moment around the first renewal
		lease := acquire(t, l, "key", lock.Options{TTL: ttl})
		hold := time.NewTimer(ttl/3 - 5*time.Millisecond + time.Duration(i)*200*time.Microsecond)
		<-hold.C
		require.NoError(t, lease.Release(t.Context()))
	}
	ended, extended := map[string]bool{}, 0
	for _, call := range monitor.Stop().TopLevel().Named("evalsha", "eval") {
		token := tokenOf(call)
		if isLeave(call) {
			ended[token] = true
			continue
		}
		require.False(t, ended[token], "asked for after its release")
		extended++
	}
	require.Len(t, ended, 50)
	require.Greater(t, extended, 50, "some were renewed")
	require.Zero(t, server.Client().Exists(t.Context(), lockKey("key")).Val())
}

func TestManyLeasesAreRenewed(t *testing.T) {
	server := redistest.Start(t)
	l := open(t, server.Client())
	leases := make([]lock.Lease, 1000)
	for i := range leases {
		leases[i] = acquire(t, l, fmt.Sprint("key", i), lock.Options{TTL: 2 * time.Second})
	}
	for held := time.NewTimer(5 * time.Second); ; {
		select {
		case <-held.C:
			for _, lease := range leases {
				require.NoError(t, lease.Context().Err(), lease.Key())
				require.NoError(t, lease.Release(t.Context()))
			}
			require.Empty(t, server.Keys("*:lock"))
			return
		case <-leases[0].Context().Done():
			require.NoError(t, context.Cause(leases[0].Context()))
		}
	}
}

// How many leases are kept does not depend on how long a trip takes, and a short
// one is not kept waiting by those that have more time.
func TestManyLeasesOverASlowLink(t *testing.T) {
	b := startBackend(t)
	seen := new(guardtest.Events)
	l := open(t, dial(t, b.line.Addr()), redislock.WithObserver(seen.Observe))
	const ttl = 6 * time.Second
	leases := make([]lock.Lease, 2000)
	each(t, len(leases), func(i int) {
		lease, err := l.Acquire(t.Context(), fmt.Sprint("key", i), lock.Options{TTL: ttl})
		assert.NoError(t, err)
		leases[i] = lease
	})
	require.False(t, t.Failed())
	b.line.Delay(25 * time.Millisecond)
	short := acquire(t, l, "short", lock.Options{TTL: time.Second})
	select {
	case <-short.Context().Done():
	case <-time.After(2 * ttl):
	}
	require.NoError(t, context.Cause(short.Context()))
	require.Empty(t, seen.All())
	b.line.Delay(0)
	each(t, len(leases), func(i int) { assert.NoError(t, leases[i].Release(t.Context())) })
	require.NoError(t, short.Release(t.Context()))
}

// A lease that lasts shorter than the bound of an operation is acquired, renewed
// and released, over a link whose round trip is a quarter of it. That a machine
// is too busy to give such a link shows in a PING that took longer; such a second
// is not counted.
func TestShortTTLOverASlowLink(t *testing.T) {
	const ttl, roundTrip = 200 * time.Millisecond, 50 * time.Millisecond
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l, pings := open(t, dial(t, proxy.Addr())), dial(t, proxy.Addr())
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	require.NoError(t, pings.Ping(t.Context()).Err())
	proxy.Delay(roundTrip / 2)
	slowest := func(ctx context.Context) (d time.Duration) {
		for ctx.Err() == nil {
			start := time.Now()
			assert.NoError(t, pings.Ping(t.Context()).Err())
			d = max(d, time.Since(start))
		}
		return d
	}
	for range 30 {
		held, cancel := context.WithTimeout(t.Context(), time.Second)
		pinged := make(chan time.Duration, 1)
		go func() { pinged <- slowest(held) }()
		lease, err := l.Acquire(held, "key", lock.Options{TTL: ttl})
		if err == nil {
			select {
			case <-held.Done():
			case <-lease.Context().Done():
			}
			err = lease.Release(t.Context())
		}
		cancel()
		d := <-pinged
		requireGone(t, server, "key")
		if d < ttl/2 {
			require.NoError(t, err, "while a round trip took %v at most", d)
			return
		}
	}
	require.Fail(t, "the machine is too busy for a link of 50 ms")
}

// An answer that comes after the lease has run out does not bring it back,
// although Redis then holds the lock.
func TestL9_ValidityIsNotJudgedAfterTheFact(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l := open(t, dial(t, proxy.Addr()))

	const ttl = 600 * time.Millisecond
	lease := acquire(t, l, "renewed", lock.Options{TTL: ttl})
	// Sent at a third of the TTL, carried out at two thirds, answered past it.
	proxy.Delay(210 * time.Millisecond)
	require.ErrorIs(t, awaitEnd(t, lease), lock.ErrExpired)
	require.EqualValues(t, 1, server.Client().Exists(t.Context(), lockKey("renewed")).Val(), "it was extended")
	require.ErrorIs(t, lease.Release(t.Context()), lock.ErrExpired)
	require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrExpired)
	requireGone(t, server, "renewed")

	// An acquire that Redis grants, and whose answer takes longer than the lease
	// lasts, is no lease.
	proxy.Delay(100 * time.Millisecond)
	start := time.Now()
	_, err := l.Acquire(t.Context(), "acquired", lock.Options{TTL: ttl / 4})
	requireUnavailable(t, err, time.Since(start))
	requireGone(t, server, "acquired")
}

// What a lease says of itself is read while it is renewed, ends and is
// released: the race detector is the judge.
func TestL26_ReadWhileRenewed(t *testing.T) {
	server := redistest.Start(t)
	l := open(t, server.Client())
	for range 3 {
		lease := acquire(t, l, "key", lock.Options{TTL: 60 * time.Millisecond})
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				for reading := time.After(200 * time.Millisecond); ; {
					select {
					case <-reading:
						_ = lease.Release(t.Context())
						return
					default:
						_, _, _ = lease.Key(), lease.Fence(), context.Cause(lease.Context())
						from, ok := lock.From(lease.Context())
						assert.True(t, ok)
						assert.Equal(t, lease.Fence(), from.Fence())
					}
				}
			})
		}
		all.Wait()
	}
}

// A renewal that gets no reply holds up no other.
func TestRenewalBehindASilentOne(t *testing.T) {
	server := redistest.Start(t)
	var armed atomic.Bool
	l := open(t, hush(t, server.Addr(), 10, func(sent []byte) bool {
		return bytes.Contains(sent, []byte("{long}:interrupt")) && armed.CompareAndSwap(true, false)
	}))
	long := acquire(t, l, "long", lock.Options{TTL: 3 * time.Second})
	short := acquire(t, l, "short", lock.Options{TTL: 400 * time.Millisecond})
	for range 2 {
		armed.Store(true)
		require.Eventually(t, func() bool { return !armed.Load() }, patience, time.Millisecond)
		select {
		case <-short.Context().Done():
			require.Fail(t, "lost", context.Cause(short.Context()))
		case <-time.After(time.Second):
		}
	}
	require.NoError(t, context.Cause(long.Context()))
	require.NoError(t, short.Release(t.Context()))
	require.NoError(t, long.Release(t.Context()))
}
