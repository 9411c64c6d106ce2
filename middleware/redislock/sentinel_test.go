package redislock_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

func sentinelPods(t *testing.T, sentinel *redistest.Sentinel, n int) []*redislock.Locker {
	pods := make([]*redislock.Locker, n)
	for i := range pods {
		pods[i] = open(t, sentinel.Client())
	}
	return pods
}

// The master dies, another is named: leases are kept or known to be lost, and the
// service is back within a TTL.
func TestSentinelFailover(t *testing.T) {
	const ttl = 6 * time.Second
	sentinel := redistest.StartSentinel(t)
	old := sentinel.Master()
	killUnderLoad(t, ttl, old, killing{
		keys: []string{"a", "b", "c"}, held: "held", free: "free",
		replaced: func() { sentinel.AwaitMaster(old) },
	}, sentinelPods(t, sentinel, 3)...)
}

// A planned failover, of a master that is well.
func TestSentinelPlannedFailover(t *testing.T) {
	const ttl = 6 * time.Second
	sentinel := redistest.StartSentinel(t)
	pods := sentinelPods(t, sentinel, 3)
	w := startLoad(t, ttl, []string{"a", "b", "c"}, pods...)
	w.awaitServed()
	old := sentinel.Master()
	began := time.Now()
	sentinel.Failover()
	sentinel.AwaitMaster(old)
	w.requireBack("free", time.Now(), pods...)
	w.awaitServed()
	w.end(lostInFailover(began))
}

// As TestClusterFailoverThatLosesALock.
func TestSentinelFailoverThatLosesALock(t *testing.T) {
	const ttl = 6 * time.Second
	sentinel := redistest.StartSentinel(t)
	pods := sentinelPods(t, sentinel, 2)
	old := sentinel.Master()
	others := sentinel.Replicas()
	others[0].Pause()
	require.NoError(t, old.Client().ClientKillByFilter(t.Context(), "TYPE", "replica").Err())
	older := acquireUnreplicated(t, old, others[1], func() lock.Lease {
		return acquire(t, pods[0], "key", lock.Options{TTL: ttl})
	})
	others[0].Resume()
	sentinel.AwaitMaster(old)
	newer := acquireBack(t, pods[1], "key", ttl)
	requireStale(t, older, newer)
}

// The sentinels name another master, of which the old one does not hear. Those who use
// it leave it all the same, once they have asked the sentinels again. Until then two can
// hold a key.
func TestSentinelOldMasterCutOff(t *testing.T) {
	const ttl, asked = 2 * time.Second, 2 * time.Second
	sentinel := redistest.StartSentinel(t)
	left, right := open(t, sentinel.Client()), open(t, sentinel.Client())
	older := acquire(t, left, "key", lock.Options{TTL: ttl})

	old, next := sentinel.Master(), sentinel.Replicas()[0]
	require.NoError(t, next.Client().ReplicaOf(t.Context(), "NO", "ONE").Err())
	host, port, err := net.SplitHostPort(next.Addr())
	require.NoError(t, err)
	for _, addr := range sentinel.Addrs() {
		_, err := dial(t, addr).Pipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Do(t.Context(), "sentinel", "remove", sentinel.Name())
			p.Do(t.Context(), "sentinel", "monitor", sentinel.Name(), host, port, 2)
			return nil
		})
		require.NoError(t, err)
	}
	named := time.Now()

	// A process that starts now finds the new master.
	newer := acquireBack(t, open(t, sentinel.Client()), "key", ttl)
	requireStale(t, older, newer)
	require.Less(t, time.Since(named), asked+ttl+time.Second)
	pause(time.Until(named.Add(asked + time.Second)))
	require.NoError(t, acquireBack(t, right, "other", ttl).Release(t.Context()))
	require.NotEmpty(t, next.Keys("*other*"))
	require.Empty(t, old.Keys("*other*"))
}

// Where the sentinels do not answer, or the one in use does not, who uses the master
// goes on, and holders keep their leases.
func TestSentinelSilence(t *testing.T) {
	const ttl = time.Second
	sentinel := redistest.StartSentinel(t)
	for name, silence := range map[string]func(*redistest.Proxy){
		"refused":   func(p *redistest.Proxy) { p.Refuse(true); p.CutAll() },
		"swallowed": func(p *redistest.Proxy) { p.BlackHole(true) },
	} {
		t.Run(name, func(t *testing.T) {
			lines := proxiesOf(t, sentinel.Addrs()...)
			seen := new(guardtest.Events)
			l := open(t, sentinel.Client(func(o *redis.FailoverOptions) { o.Dialer = lines.dial }), redislock.WithObserver(seen.Observe))
			crowd(t, l, 50) // opens connections
			held := acquire(t, l, "held", lock.Options{TTL: ttl})
			for _, p := range lines {
				silence(p)
			}
			for silent := time.Now(); time.Since(silent) < 5*time.Second; {
				require.NoError(t, acquire(t, l, "key", lock.Options{TTL: ttl}).Release(t.Context()))
				pause(10 * time.Millisecond)
			}
			require.NoError(t, held.Context().Err())
			require.NoError(t, held.Release(t.Context()))
			require.Empty(t, seen.All())
		})
	}
}

// A master that has just restarted without its data is replaced: its successor knows
// of no more holders than it did, and gives no key away either until they know.
func TestSentinelRestartThenFailover(t *testing.T) {
	const ttl = 8 * time.Second
	sentinel := redistest.StartSentinel(t)
	var addrs []string
	for _, s := range sentinel.Servers() {
		addrs = append(addrs, s.Addr())
	}
	lines := proxiesOf(t, append(addrs, sentinel.Addrs()...)...)
	cutOff := open(t, sentinel.Client(func(o *redis.FailoverOptions) { o.Dialer = lines.dial }))
	l := open(t, sentinel.Client())
	pause(ttl) // the replicas have been up for longer than the TTL
	older := acquire(t, cutOff, "key", lock.Options{TTL: ttl})
	require.NoError(t, acquire(t, l, "other", lock.Options{TTL: ttl}).Release(t.Context()))
	old := sentinel.Master()
	requireReplicated(t, old)
	lines.blackHole(true) // the lease is its holder's until the TTL has passed all the same
	old.Restart()
	_, err := l.Acquire(t.Context(), "key", lock.Options{TTL: ttl, Wait: 100 * time.Millisecond})
	require.ErrorIs(t, err, lock.ErrUnavailable)
	for _, r := range sentinel.Replicas() { // they throw away what it has lost
		require.Eventually(t, func() bool { return r.Client().Exists(t.Context(), lockKey("key")).Val() == 0 }, patience, time.Millisecond)
	}
	sentinel.Failover()
	sentinel.AwaitMaster(old)
	require.NoError(t, older.Context().Err(), "the failover was too slow for this test to say anything")
	newer := acquireBack(t, l, "key", ttl)
	require.ErrorIs(t, context.Cause(older.Context()), lock.ErrExpired, "it has been given away before")
	require.NoError(t, newer.Release(t.Context()))
	lines.blackHole(false)
}
