package redislock_test

import (
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

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
	pods := sentinelPods(t, sentinel, 3)
	w := startLoad(t, ttl, []string{"a", "b", "c"}, pods...)
	w.awaitServed()
	held := acquire(t, pods[0], "held", lock.Options{TTL: ttl})
	old := sentinel.Master()
	requireReplicated(t, old)
	killed := time.Now()
	old.Kill()
	sentinel.AwaitMaster(old)
	w.requireBack("free", time.Now(), pods...)
	w.awaitServed()
	old.Restart()
	pause(ttl / 2)
	w.awaitServed()
	w.end(lostInFailover(killed))
	require.NoError(t, held.Context().Err(), "a lease that was replicated outlives its master")
	require.NoError(t, held.Release(t.Context()))
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

// The sentinels name another master, of which the old one does not hear, as if it were
// cut off together with those who use it. They leave it all the same, no later than
// their connections last and a renewal is due. Until then two can hold a key.
func TestSentinelOldMasterCutOff(t *testing.T) {
	const ttl, lifetime = 2 * time.Second, 10 * time.Second
	sentinel := redistest.StartSentinel(t)
	left, right := open(t, sentinel.Client()), open(t, sentinel.Client())
	older := acquire(t, left, "key", lock.Options{TTL: ttl})

	old, next := sentinel.Master(), sentinel.Replicas()[0]
	require.NoError(t, next.Client().SlaveOf(t.Context(), "NO", "ONE").Err())
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
	require.Less(t, time.Since(named), lifetime+ttl+time.Second)
	pause(time.Until(named.Add(lifetime)))
	require.NoError(t, acquire(t, right, "other", lock.Options{}).Release(t.Context()))
	require.NotEmpty(t, next.Keys("*other*"))
	require.Empty(t, old.Keys("*other*"))
}
