package redislock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/locktest"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// openQuorum returns a Locker on several servers that is closed when the test ends.
func openQuorum(t testing.TB, addrs []string, opts ...redislock.Option) *redislock.Locker {
	t.Helper()
	clients := make([]redis.UniversalClient, len(addrs))
	for i, addr := range addrs {
		clients[i] = dial(t, addr)
	}
	l, err := redislock.NewQuorum(clients, append([]redislock.Option{unobserved}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func addrsOf(servers []*redistest.Server) (addrs []string) {
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

func TestQuorumConformance(t *testing.T) {
	servers := redistest.StartMasters(t, 5)
	locktest.Run(t, func(t *testing.T) locktest.Fixture {
		lines := make(proxies)
		var far []string
		for _, s := range servers {
			lines[s.Addr()] = redistest.NewProxy(t, s.Addr())
			far = append(far, lines[s.Addr()].Addr())
		}
		return locktest.Fixture{
			Locker: openQuorum(t, far),
			Peer:   openQuorum(t, addrsOf(servers)),
			Lose: func(key string) {
				for _, s := range servers {
					require.NoError(t, s.Client().Del(t.Context(), lockKey(key)).Err())
				}
			},
			Break: func() { lines.blackHole(true) },
			Heal:  func() { lines.blackHole(false) },
		}
	})
}

func TestNewQuorumReportsEveryProblem(t *testing.T) {
	one := dial(t, "127.0.0.1:1")
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	_, err := redislock.NewQuorum([]redis.UniversalClient{one, dial(t, "127.0.0.1:1"), nil, (*redis.Client)(nil), cluster}, nil)
	for _, problem := range []string{
		"client 2 of 5 leads to the same server as another: 127.0.0.1:1", "client 3 of 5 is of type <nil>", "client 4 of 5 is nil",
		"client 5 of 5 is of type *redis.ClusterClient", "option 1 of 1 is nil",
	} {
		assert.ErrorContains(t, err, problem)
	}
	_, err = redislock.NewQuorum([]redis.UniversalClient{one})
	assert.ErrorContains(t, err, "quorum of 1 clients: must be three or more")
}

func quorumPods(t *testing.T, servers []*redistest.Server, n int) []*redislock.Locker {
	pods := make([]*redislock.Locker, n)
	for i := range pods {
		pods[i] = openQuorum(t, addrsOf(servers))
	}
	return pods
}

// Two of five die and come back empty, one after the other: nobody is turned away, no
// lease is lost, no two hold a key. Then the other two do.
func TestQuorumMastersDie(t *testing.T) {
	const ttl = 2 * time.Second
	servers := redistest.StartMasters(t, 5)
	pods := quorumPods(t, servers, 3)
	w := startLoad(t, ttl, []string{"a", "b", "c"}, pods...)
	w.awaitServed()
	for _, dying := range [][]*redistest.Server{servers[:2], servers[3:]} {
		for _, s := range dying {
			s.Kill()
		}
		w.requireBack("free", time.Now(), pods...)
		w.awaitServed()
		for _, s := range dying {
			s.Restart()
		}
		w.awaitServed()
		pause(2 * ttl) // by then they vote again
		w.awaitServed()
	}
	w.end(nil)
	for key, all := range w.tenures {
		for _, held := range all {
			require.NoError(t, held.lost, key)
			require.NotErrorIs(t, held.released, lock.ErrLost, key) // a server may die as it is told
		}
	}
	require.Zero(t, w.down)
}

// Without a majority nothing goes, and that is told in time; with one it goes again.
func TestQuorumWithoutMajority(t *testing.T) {
	const ttl = 2 * time.Second
	servers := redistest.StartMasters(t, 3)
	for name, away := range map[string]struct{ begin, over func(*redistest.Server) }{
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
		"paused": {(*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			l := openQuorum(t, addrsOf(servers))
			held := acquireBack(t, l, "held", ttl) // the other test may have left it
			for _, s := range servers[:2] {
				away.begin(s)
			}
			start := time.Now()
			_, err := l.Acquire(t.Context(), "key", lock.Options{TTL: ttl, Wait: patience})
			requireUnavailable(t, err, time.Since(start))
			require.ErrorContains(t, err, "1 of 3 servers answer")
			require.ErrorIs(t, awaitEnd(t, held), lock.ErrExpired)
			for _, s := range servers[:2] {
				away.over(s)
			}
			require.NoError(t, acquireBack(t, l, "key", ttl).Release(t.Context()))
		})
	}
}

// Masters that swallow everything hold up nobody, as long as there are enough others:
// also not who renews a lease that lasts for less than it takes to notice them.
func TestQuorumSilentMasters(t *testing.T) {
	servers := redistest.StartMasters(t, 5)
	lines := make([]*redistest.Proxy, 5)
	addrs := make([]string, 5)
	for i, s := range servers {
		lines[i] = redistest.NewProxy(t, s.Addr())
		addrs[i] = lines[i].Addr()
	}
	l, peer := openQuorum(t, addrs), openQuorum(t, addrs)
	short := acquire(t, l, "short", lock.Options{TTL: 300 * time.Millisecond})
	lines[0].BlackHole(true)
	lines[3].BlackHole(true)
	slowest := time.Duration(0)
	for begun := time.Now(); time.Since(begun) < 3*time.Second; {
		start := time.Now()
		lease := acquire(t, l, "key", lock.Options{})
		waiter := acquireLater(t.Context(), peer, lock.Options{Wait: patience})
		pause(5 * time.Millisecond)
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, requireGranted(t, waiter, soon).Release(t.Context()))
		slowest = max(slowest, time.Since(start))
	}
	t.Logf("slowest: %v", slowest)
	require.Less(t, slowest, time.Second)
	require.NoError(t, short.Context().Err())
	require.NoError(t, short.Release(t.Context()))
}

// A lease outlives the restart of each master, one after the other: those that have
// forgotten it hear of it again.
func TestQuorumRollingRestart(t *testing.T) {
	const ttl = time.Second
	servers := redistest.StartMasters(t, 5)
	pods := quorumPods(t, servers, 2)
	held := acquire(t, pods[0], "key", lock.Options{TTL: ttl})
	for _, s := range servers {
		s.Restart()
		require.Eventually(t, func() bool { return s.Client().Exists(t.Context(), lockKey("key")).Val() == 1 }, patience, time.Millisecond)
	}
	_, err := pods[1].Acquire(t.Context(), "key", lock.Options{TTL: ttl, Wait: ttl})
	require.ErrorIs(t, err, lock.ErrBusy)
	require.NoError(t, context.Cause(held.Context()))
	require.NoError(t, held.Release(t.Context()))
	next := acquireBack(t, pods[1], "key", ttl)
	require.Greater(t, next.Fence(), held.Fence())
	require.NoError(t, next.Release(t.Context()))
}

// The fence is agreed on: it rises although each time another majority gives the lock,
// whose members have seen other fences.
func TestQuorumFencesAreAgreed(t *testing.T) {
	servers := redistest.StartMasters(t, 5)
	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	require.NoError(t, servers[0].Client().Set(t.Context(), "reqlock:{key}:fence", ahead, time.Hour).Err())
	last := ahead
	for round, dead := range [][2]int{{3, 4}, {0, 1}, {2, 3}, {0, 4}, {1, 2}} {
		l := openQuorum(t, addrsOf(servers))
		for _, i := range dead {
			servers[i].Pause()
		}
		lease := acquire(t, l, "key", lock.Options{Wait: patience})
		require.Greater(t, lease.Fence(), last, "round %d", round)
		last = lease.Fence()
		require.NoError(t, lease.Release(t.Context()))
		for _, i := range dead {
			servers[i].Resume()
		}
	}
	require.Less(t, last, uint64(1)<<53)
}

// Most of the masters restart empty, and a process that has started since does not
// know: it gets a key that is held. The holder is told when it next renews, and what
// compares fences refuses it from the start.
func TestQuorumThatForgets(t *testing.T) {
	const ttl = 3 * time.Second
	servers := redistest.StartMasters(t, 5)
	older := acquire(t, openQuorum(t, addrsOf(servers)), "key", lock.Options{TTL: ttl})
	for _, s := range servers[:3] {
		s.Restart()
	}
	newer := acquire(t, openQuorum(t, addrsOf(servers)), "key", lock.Options{TTL: ttl})
	requireStale(t, older, newer)
}

// A process that knew the masters before they restarted gives a key to nobody until
// whoever held it knows.
func TestQuorumThatForgetsIsNoticed(t *testing.T) {
	const ttl = 2 * time.Second
	servers := redistest.StartMasters(t, 3)
	left, right := openQuorum(t, addrsOf(servers)), openQuorum(t, addrsOf(servers))
	held := acquire(t, left, "key", lock.Options{TTL: ttl})
	require.NoError(t, acquire(t, right, "other", lock.Options{TTL: ttl}).Release(t.Context()))
	for _, s := range servers {
		s.Restart()
	}
	next := acquireBack(t, right, "key", ttl)
	require.ErrorIs(t, context.Cause(held.Context()), lock.ErrLost)
	require.NoError(t, next.Release(t.Context()))
}

// A release wakes who has waited longest, and who has gone swallows no wake-up.
func TestQuorumWakesWaiters(t *testing.T) {
	servers := redistest.StartMasters(t, 3)
	pods := quorumPods(t, servers, 3)
	for range 5 {
		lease := acquire(t, pods[0], "key", lock.Options{TTL: longTTL})
		ctx, leave := context.WithCancel(t.Context())
		first := acquireLater(ctx, pods[1], lock.Options{TTL: longTTL, Wait: time.Minute})
		awaitMostQueue(t, servers, 1)
		second := acquireLater(t.Context(), pods[2], lock.Options{TTL: longTTL, Wait: time.Minute})
		awaitMostQueue(t, servers, 2)
		leave()
		require.ErrorIs(t, (<-first).err, context.Canceled)
		awaitMostQueue(t, servers, 1)
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, requireGranted(t, second, soon).Release(t.Context()))
	}
}

// awaitMostQueue waits until as many wait for "key" at most servers: one may have given
// its lock, for a moment, to who has not got it.
func awaitMostQueue(t *testing.T, servers []*redistest.Server, n int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		most := 0
		for _, s := range servers {
			if s.Client().ZCard(t.Context(), "reqlock:{key}:queue").Val() == n {
				most++
			}
		}
		return most > len(servers)/2
	}, patience, time.Millisecond)
}

// To acquire costs two commands on each server, to release one, and nothing of a key is
// left but its fence.
func TestQuorumCommands(t *testing.T) {
	servers := redistest.StartMasters(t, 5)
	l := openQuorum(t, addrsOf(servers))
	// Those that were not needed may answer later.
	awaitCalls := func(command string, want int64) {
		for i, s := range servers {
			require.Eventually(t, func() bool { return s.Commands(command)[command] == want }, patience, time.Millisecond, "server %d", i)
		}
	}
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	awaitCalls("eval", 3)
	var before []int64
	var monitors []*redistest.Monitor
	for _, s := range servers {
		before = append(before, s.Commands("evalsha")["evalsha"])
		monitors = append(monitors, s.Monitor(t))
	}
	require.Equal(t, slices.Repeat(before[:1], len(servers)), before)
	const pairs = 5
	for i := range int64(pairs) {
		lease := acquire(t, l, "key", lock.Options{})
		awaitCalls("evalsha", before[0]+3*i+2)
		require.NoError(t, lease.Release(t.Context()))
		awaitCalls("evalsha", before[0]+3*i+3)
	}
	for i, m := range monitors {
		require.Len(t, m.Stop().TopLevel().Named("evalsha", "eval"), 3*pairs, fmt.Sprint("server ", i))
		// A tombstone is for a reply that this process had not read when it released.
		require.Subset(t, []string{"reqlock:{key}:fence", "reqlock:{key}:tombstones"}, servers[i].Keys("*{key}*"))
	}
}

// An interrupt reaches the holder, in whatever process it is.
func TestQuorumInterrupt(t *testing.T) {
	servers := redistest.StartMasters(t, 5)
	pods := quorumPods(t, servers, 2)
	lease := acquire(t, pods[0], "key", lock.Options{TTL: time.Second})
	found, err := pods[1].Interrupt(t.Context(), "key")
	require.NoError(t, err)
	require.True(t, found)
	require.ErrorIs(t, awaitEnd(t, lease), lock.ErrInterrupted)
	require.NoError(t, lease.Release(t.Context()))
	found, err = pods[1].Interrupt(t.Context(), "key")
	require.NoError(t, err)
	require.False(t, found)
}
