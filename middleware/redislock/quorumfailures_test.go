package redislock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
)

// quorumLines returns proxies before servers, and their addresses.
func quorumLines(t *testing.T, servers []*redistest.Server) (lines []*redistest.Proxy, addrs []string) {
	for _, s := range servers {
		line := redistest.NewProxy(t, s.Addr())
		lines, addrs = append(lines, line), append(addrs, line.Addr())
	}
	return lines, addrs
}

// Half of an even number is no majority, and yet enough to refuse: a key that is held
// is no outage.
func TestQuorumOfEvenNumber(t *testing.T) {
	pods := quorumPods(t, redistest.StartMasters(t, 4), 2)
	held := acquire(t, pods[0], "key", lock.Options{})
	for _, wait := range []time.Duration{0, 100 * time.Millisecond} {
		for range 10 {
			_, err := pods[1].Acquire(t.Context(), "key", lock.Options{Wait: wait})
			require.ErrorIs(t, err, lock.ErrBusy)
		}
	}
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, acquire(t, pods[1], "key", lock.Options{Wait: time.Second}).Release(t.Context()))
}

// Who leaves as it is told that the lock is free passes that on.
func TestQuorumWakeUpIsPassedOn(t *testing.T) {
	servers := redistest.StartMasters(t, 3)
	pods := quorumPods(t, servers, 3)
	for round := range 24 {
		lease := acquire(t, pods[0], "key", lock.Options{TTL: longTTL, Wait: patience})
		ctx, leave := context.WithCancel(t.Context())
		first := acquireLater(ctx, pods[1], lock.Options{TTL: longTTL, Wait: time.Minute})
		awaitMostQueue(t, servers, 1)
		second := acquireLater(t.Context(), pods[2], lock.Options{TTL: longTTL, Wait: time.Minute})
		awaitMostQueue(t, servers, 2)
		time.AfterFunc(time.Duration(round%6)*100*time.Microsecond, leave)
		require.NoError(t, lease.Release(t.Context()))
		releaseOrGone(t, <-first, context.Canceled)
		require.NoError(t, requireGranted(t, second, soon).Release(t.Context()))
	}
}

// Tries that get in each other's way, and of which none has the lock in the end, leave
// nobody asleep.
func TestQuorumTriesBesideAWaiter(t *testing.T) {
	pods := quorumPods(t, redistest.StartMasters(t, 3), 3)
	for range 100 {
		var tries sync.WaitGroup
		for _, pod := range pods[1:] {
			for range 2 {
				tries.Go(func() {
					lease, err := pod.Acquire(t.Context(), "key", lock.Options{TTL: longTTL})
					if err == nil {
						err = lease.Release(t.Context())
					}
					if err != nil {
						assert.ErrorIs(t, err, lock.ErrBusy)
					}
				})
			}
		}
		waiter := acquireLater(t.Context(), pods[0], lock.Options{TTL: longTTL, Wait: time.Minute})
		require.NoError(t, requireGranted(t, waiter, soon).Release(t.Context()))
		tries.Wait()
	}
}

// Masters that always answer last are reminded of a lease as well, so that it outlives
// the restart of all, one after the other.
func TestQuorumSlowMastersAreReminded(t *testing.T) {
	const ttl = time.Second
	servers := redistest.StartMasters(t, 5)
	lines, addrs := quorumLines(t, servers)
	l := openQuorum(t, addrs)
	lines[3].Delay(10 * time.Millisecond)
	lines[4].Delay(10 * time.Millisecond)
	held := acquire(t, l, "key", lock.Options{TTL: ttl})
	for _, i := range []int{3, 4, 0} {
		servers[i].Restart()
		require.Eventually(t, func() bool {
			return servers[i].Client().Exists(t.Context(), lockKey("key")).Val() == 1
		}, 3*ttl, time.Millisecond, "server %d", i)
	}
	_, err := openQuorum(t, addrs).Acquire(t.Context(), "key", lock.Options{TTL: ttl})
	require.ErrorIs(t, err, lock.ErrBusy)
	require.NoError(t, context.Cause(held.Context()))
	require.NoError(t, held.Release(t.Context()))
}

// A waiter whose subscriptions end may have missed something, and asks.
func TestQuorumSubscriptionsCut(t *testing.T) {
	servers := redistest.StartMasters(t, 3)
	lines, addrs := quorumLines(t, servers)
	l, peer := openQuorum(t, addrs), openQuorum(t, addrsOf(servers))
	lease := acquire(t, peer, "key", lock.Options{TTL: longTTL})
	waiter := acquireLater(t.Context(), l, lock.Options{TTL: longTTL, Wait: time.Minute})
	awaitMostQueue(t, servers, 1)
	for _, line := range lines {
		line.CutAll()
	}
	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, requireGranted(t, waiter, soon).Release(t.Context()))
}

// An outage ends a wait, however long the TTL.
func TestQuorumOutageWhileWaiting(t *testing.T) {
	servers := redistest.StartMasters(t, 3)
	lines, addrs := quorumLines(t, servers)
	l, peer := openQuorum(t, addrs), openQuorum(t, addrsOf(servers))
	lease := acquire(t, peer, "key", lock.Options{TTL: time.Minute})
	waiter := acquireLater(t.Context(), l, lock.Options{TTL: time.Minute, Wait: time.Minute})
	awaitMostQueue(t, servers, 1)
	for _, line := range lines[:2] {
		line.BlackHole(true)
	}
	silent := time.Now()
	g := <-waiter
	require.ErrorIs(t, g.err, lock.ErrUnavailable)
	require.Less(t, g.at.Sub(silent), 4*time.Second)
	require.NoError(t, lease.Release(t.Context()))
}

// With two of five away whoever wants the lock needs all of the others, and so do its
// rivals: they get out of each other's way, and all are served.
func TestQuorumRivals(t *testing.T) {
	for name, away := range map[string]func(*redistest.Server){
		"killed": (*redistest.Server).Kill, "silent": (*redistest.Server).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			servers := redistest.StartMasters(t, 5)
			pods := quorumPods(t, servers, 3)
			for _, pod := range pods {
				require.NoError(t, acquireBack(t, pod, "warm", time.Second).Release(t.Context()))
			}
			for _, s := range servers[:2] {
				away(s)
			}
			stop, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			var served [3]atomic.Int64
			var all sync.WaitGroup
			for i, pod := range pods {
				all.Go(func() {
					for stop.Err() == nil {
						start := time.Now()
						lease, err := pod.Acquire(t.Context(), "key", lock.Options{Wait: time.Minute})
						if !assert.NoError(t, err) {
							return
						}
						assert.Less(t, time.Since(start), 3*time.Second)
						pause(time.Millisecond)
						assert.NoError(t, lease.Release(t.Context()))
						served[i].Add(1)
					}
				})
			}
			all.Wait()
			for i := range served {
				require.Greater(t, served[i].Load(), int64(10), fmt.Sprint("process ", i))
			}
		})
	}
}

// Where too few say how the lock stands, an interrupt is not told that nobody holds it.
func TestQuorumInterruptInDoubt(t *testing.T) {
	const ttl = 2 * time.Second
	servers := redistest.StartMasters(t, 5)
	servers[3].Kill()
	servers[4].Kill()
	pods := quorumPods(t, servers, 2)
	held := acquireBack(t, pods[0], "key", ttl)
	servers[3].Restart()
	servers[4].Restart()
	servers[0].Kill()
	_, err := pods[1].Interrupt(t.Context(), "key")
	if err != nil { // or the lease has been told to the two already
		require.ErrorIs(t, err, lock.ErrUnavailable)
	}
	require.ErrorIs(t, awaitEnd(t, held), lock.ErrInterrupted)
}

// Of a lease that most members do not have, one of those that have said so knows if there
// is another holder: that most have one need not have been heard.
func TestL5_QuorumStolenAsSeenByOne(t *testing.T) {
	servers := redistest.StartMasters(t, 5)
	lines, addrs := quorumLines(t, servers)
	lease := acquire(t, openQuorum(t, addrs), "key", lock.Options{TTL: 3 * time.Second})
	require.Eventually(t, func() bool { // everywhere, with the next renewal at the latest
		for _, s := range servers {
			if s.Client().Exists(t.Context(), lockKey("key")).Val() == 0 {
				return false
			}
		}
		return true
	}, patience, time.Millisecond)
	for i, s := range servers {
		require.NoError(t, s.Client().Del(t.Context(), lockKey("key")).Err())
		if i < 3 {
			require.NoError(t, s.Client().Set(t.Context(), lockKey("key"), "another", time.Minute).Err())
		}
	}
	lines[0].Delay(100 * time.Millisecond)
	lines[1].Delay(100 * time.Millisecond) // so that the others are heard first
	require.ErrorIs(t, lease.Release(t.Context()), lock.ErrStolen)
}
