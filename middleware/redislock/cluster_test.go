package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// pods returns the Lockers of several processes on one Cluster.
func clusterPods(t *testing.T, cluster *redistest.Cluster, n int) []*redislock.Locker {
	pods := make([]*redislock.Locker, n)
	for i := range pods {
		pods[i] = open(t, cluster.Client())
	}
	return pods
}

// clusterKeys returns keys on all masters.
func clusterKeys(cluster *redistest.Cluster, prefixes ...string) (keys []string) {
	for _, master := range cluster.Masters() {
		for _, prefix := range prefixes {
			keys = append(keys, cluster.Key(master, prefix))
		}
	}
	return keys
}

// A master dies and is replaced: the leases on it are kept or known to be lost, and
// its keys are served again within a TTL.
func TestClusterFailover(t *testing.T) {
	const ttl = 6 * time.Second
	cluster := redistest.StartCluster(t)
	keys := clusterKeys(cluster, "a", "b")
	old := cluster.Owner(keys[0])
	killUnderLoad(t, ttl, old, killing{
		keys: keys, held: cluster.Key(old, "held"), free: cluster.Key(old, "free"),
		replaced: func() { cluster.AwaitOwner(keys[0], old) },
	}, clusterPods(t, cluster, 3)...)
}

// What a master has acknowledged and its replica has not seen is lost with the
// master, and the key is given away while its holder works. That one is told, and
// what compares fences refuses it from the start.
func TestClusterFailoverThatLosesALock(t *testing.T) {
	const ttl = 6 * time.Second
	cluster := redistest.StartCluster(t)
	pods := clusterPods(t, cluster, 2)
	old := cluster.Masters()[0]
	key := cluster.Key(old, "k")
	older := acquireUnreplicated(t, old, cluster.Replica(old), func() lock.Lease {
		return acquire(t, pods[0], key, lock.Options{TTL: ttl})
	})
	cluster.AwaitOwner(key, old)
	newer := acquireBack(t, pods[1], key, ttl)
	requireStale(t, older, newer)
}

// Who only asks finds the new master at once, and reads that the outage is over.
func TestClusterFailoverSeenByWhoOnlyAsks(t *testing.T) {
	const ttl = 2 * time.Second
	cluster := redistest.StartCluster(t)
	seen := new(guardtest.Events)
	l := open(t, cluster.Client(), redislock.WithObserver(seen.Observe))
	old := cluster.Masters()[0]
	key := cluster.Key(old, "k")
	require.NoError(t, acquire(t, l, key, lock.Options{TTL: ttl}).Release(t.Context()))
	requireReplicated(t, old)
	old.Kill()
	replaced := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		for {
			lease, err := l.Acquire(t.Context(), key, lock.Options{TTL: ttl})
			if err == nil {
				assert.NoError(t, lease.Release(t.Context()))
				return
			}
			select {
			case <-replaced:
				pause(20 * time.Millisecond)
			case <-time.After(300 * time.Millisecond):
			}
		}
	})
	cluster.AwaitOwner(key, old)
	back := time.Now()
	close(replaced)
	asking.Wait()
	require.Less(t, time.Since(back), 2*time.Second)
	require.Eventually(t, func() bool {
		return len(guardtest.Of[lock.BackendRecovered](seen)) == len(guardtest.Of[lock.BackendFailed](seen))
	}, patience, 10*time.Millisecond)
}

// As TestSentinelRestartThenFailover, where the slot goes to another master.
func TestClusterRestartThenMove(t *testing.T) {
	const ttl = 10 * time.Second
	for name, move := range map[string]func(*redistest.Cluster, string, *redistest.Server){
		"migrated": func(c *redistest.Cluster, key string, from *redistest.Server) {
			c.Migrate(key, c.Masters()[1])
		},
		"failed over": func(c *redistest.Cluster, key string, from *redistest.Server) {
			c.Failover(from)
			c.AwaitOwner(key, from)
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := redistest.StartCluster(t)
			pods := clusterPods(t, cluster, 2)
			from := cluster.Masters()[0]
			key := cluster.Key(from, "k")
			older := acquire(t, pods[0], key, lock.Options{TTL: ttl})
			require.NoError(t, acquire(t, pods[1], cluster.Key(from, "other"), lock.Options{TTL: ttl}).Release(t.Context()))
			requireReplicated(t, from)
			from.Restart()
			require.Eventually(t, func() bool { // nodes serve nobody at first
				return from.Client().Del(t.Context(), cluster.Key(from, "nothing")).Err() == nil
			}, patience, time.Millisecond)
			other := cluster.Key(from, "other")
			require.Eventually(t, func() bool { // the process asks there before the slot moves
				_, err := pods[1].Acquire(t.Context(), other, lock.Options{TTL: ttl})
				var until *lock.UnavailableError
				return errors.As(err, &until)
			}, patience, time.Millisecond)
			move(cluster, key, from)
			newer := acquireBack(t, pods[1], key, ttl)
			require.Error(t, context.Cause(older.Context()), "it has been given away before")
			require.NoError(t, newer.Release(t.Context()))
		})
	}
}

// A slot moves to another master while its keys are in use, again and again: nobody
// notices.
func TestClusterSlotMigration(t *testing.T) {
	const ttl = time.Second
	cluster := redistest.StartCluster(t)
	keys := clusterKeys(cluster, "a")
	pods := clusterPods(t, cluster, 3)
	w := startLoad(t, ttl, keys, pods...)
	w.awaitServed()
	for i := range 12 {
		for _, to := range cluster.Masters() {
			if to != cluster.Owner(keys[i%len(keys)]) {
				cluster.Migrate(keys[i%len(keys)], to)
				break
			}
		}
		w.awaitServed()
	}
	w.end(nil)
	for key, all := range w.tenures {
		for _, held := range all {
			require.NoError(t, held.lost, key)
			require.NoError(t, held.released, key)
		}
	}
	require.Zero(t, w.down)
}

// While a slot is on its way its keys are neither here nor there. Who asks waits, for
// as long as a call takes; who holds keeps the lease.
func TestClusterSlotOnItsWay(t *testing.T) {
	const ttl = 3 * time.Second
	cluster := redistest.StartCluster(t)
	pods := clusterPods(t, cluster, 2)
	masters := cluster.Masters()
	key := cluster.Key(masters[0], "k")
	lease := acquire(t, pods[0], key, lock.Options{TTL: ttl})
	finish := cluster.BeginMigration(key, masters[1])
	start := time.Now()
	_, err := pods[1].Acquire(t.Context(), key, lock.Options{Wait: patience})
	requireUnavailable(t, err, time.Since(start))
	require.Contains(t, err.Error(), "TRYAGAIN")
	pause(ttl / 2)
	require.NoError(t, lease.Context().Err())
	waiter := acquireKeyLater(t.Context(), pods[1], key, lock.Options{Wait: patience})
	finish()
	pause(ttl)
	require.NoError(t, lease.Context().Err())
	require.NoError(t, lease.Release(t.Context()))
	next := requireGranted(t, waiter, soon)
	require.Greater(t, next.Fence(), lease.Fence())
	require.NoError(t, next.Release(t.Context()))
}

// A master that swallows everything holds up nobody who uses keys of another, and who
// uses its keys is told of an outage as with a single server.
func TestClusterSilentMaster(t *testing.T) {
	const ttl = 30 * time.Second
	cluster := redistest.StartCluster(t)
	lines := proxiesOf(t, cluster.Addrs()...)
	seen := new(guardtest.Events)
	l := open(t, cluster.Client(func(o *redis.ClusterOptions) {
		o.Dialer = lines.dial
		o.PoolSize = 4
	}), redislock.WithObserver(seen.Observe))
	peer := open(t, cluster.Client())
	silent, well := cluster.Masters()[0], cluster.Masters()[1]
	theirs := acquire(t, peer, cluster.Key(silent, "theirs"), lock.Options{TTL: ttl})
	held := acquire(t, l, cluster.Key(well, "held"), lock.Options{TTL: time.Second})
	waiter := acquireKeyLater(t.Context(), l, theirs.Key(), lock.Options{TTL: ttl, Wait: time.Minute})
	awaitKeyQueued(t, silent, theirs.Key(), 1)
	lines[silent.Addr()].BlackHole(true)
	cut := time.Now()

	keys := make([]string, 50)
	for i := range keys {
		keys[i] = cluster.Key(silent, fmt.Sprint("silent", i, "-"))
	}
	var asking sync.WaitGroup
	for range 2 {
		for _, key := range keys {
			asking.Go(func() {
				start := time.Now()
				_, err := l.Acquire(t.Context(), key, lock.Options{Wait: patience})
				if assert.ErrorIs(t, err, lock.ErrUnavailable) {
					assert.Less(t, time.Since(start), 1500*time.Millisecond)
				}
			})
		}
	}
	slowest, n := time.Duration(0), 0
	for ; time.Since(cut) < 2*time.Second; n++ {
		key := cluster.Key(well, fmt.Sprint("well", n, "-"))
		start := time.Now()
		require.NoError(t, acquire(t, l, key, lock.Options{}).Release(t.Context()))
		slowest = max(slowest, time.Since(start))
	}
	t.Logf("%d leases on another master, the slowest in %v", n, slowest)
	require.Less(t, slowest, 500*time.Millisecond)
	asking.Wait()
	g := <-waiter
	require.ErrorIs(t, g.err, lock.ErrUnavailable)
	require.Less(t, g.at.Sub(cut), 4*time.Second)
	require.NoError(t, held.Context().Err())
	require.NoError(t, held.Release(t.Context()))
	failed := guardtest.Of[lock.BackendFailed](seen)
	require.Len(t, failed, 1)
	require.ErrorContains(t, failed[0].Err, silent.Addr())
	lines[silent.Addr()].BlackHole(false)
	require.NoError(t, acquireBack(t, l, keys[0], ttl).Release(t.Context()))
	require.NoError(t, theirs.Release(t.Context()))
}

// Masters that fall silent cost who waits for a key of another one nothing.
func TestClusterSilentNeighbours(t *testing.T) {
	cluster := redistest.StartCluster(t)
	lines := proxiesOf(t, cluster.Addrs()...)
	l := open(t, cluster.Client(func(o *redis.ClusterOptions) { o.Dialer = lines.dial }))
	peer := open(t, cluster.Client())
	well := cluster.Masters()[0]
	key := cluster.Key(well, "k")
	theirs := acquire(t, peer, key, lock.Options{TTL: longTTL})
	waiter := acquireKeyLater(t.Context(), l, key, lock.Options{TTL: longTTL, Wait: time.Minute})
	awaitKeyQueued(t, well, key, 1)
	for addr, line := range lines {
		if addr != well.Addr() {
			line.BlackHole(true)
		}
	}
	require.NoError(t, theirs.Release(t.Context()))
	require.NoError(t, requireGranted(t, waiter, soon).Release(t.Context()))
}

// A client of a single server that is one of a Cluster is told so, where a key is not
// there.
func TestSingleClientOfACluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	here, there := cluster.Masters()[0], cluster.Masters()[1]
	l := open(t, dial(t, here.Addr()))
	require.NoError(t, acquire(t, l, cluster.Key(here, "k"), lock.Options{}).Release(t.Context()))
	start := time.Now()
	_, err := l.Acquire(t.Context(), cluster.Key(there, "k"), lock.Options{Wait: patience})
	requireUnavailable(t, err, time.Since(start))
	require.ErrorContains(t, err, "redis.NewClusterClient")
}

// A lock and its release are two commands, to the master that has the key, and all
// that there is of a key is in its slot.
func TestA11_ClusterCommands(t *testing.T) {
	cluster := redistest.StartCluster(t)
	l, peer := open(t, cluster.Client()), open(t, cluster.Client())
	monitors := make(map[*redistest.Server]*redistest.Monitor)
	var keys []string
	for _, master := range cluster.Masters() {
		key := cluster.Key(master, "user 1:")
		require.NoError(t, acquire(t, l, key, lock.Options{}).Release(t.Context())) // sends the scripts
		keys = append(keys, key)
		monitors[master] = master.Monitor(t)
	}
	const pairs = 5
	for _, key := range keys {
		for range pairs {
			require.NoError(t, acquire(t, l, key, lock.Options{}).Release(t.Context()))
		}
	}
	for _, monitor := range monitors {
		calls := monitor.Stop().TopLevel()
		require.Len(t, calls.Named("evalsha"), 2*pairs)
		require.Empty(t, calls.Named("eval"))
	}
	// Now with all that a key can have: a queue, an interrupt, tombstones.
	for _, key := range keys {
		lease := acquire(t, peer, key, lock.Options{})
		waiter := acquireKeyLater(t.Context(), l, key, lock.Options{Wait: patience})
		awaitKeyQueued(t, cluster.Owner(key), key, 1)
		found, err := l.Interrupt(t.Context(), key)
		require.NoError(t, err)
		require.True(t, found)
		slot := cluster.Client().ClusterKeySlot(t.Context(), lockKey(key)).Val()
		names, err := cluster.Owner(key).Client().ClusterGetKeysInSlot(t.Context(), int(slot), 100).Result()
		require.NoError(t, err)
		require.Len(t, names, 5, "lock, fence, queue, entries, interrupt: %v", names)
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, requireGranted(t, waiter, soon).Release(t.Context()))
	}
}

// awaitKeyQueued waits until as many wait for a key in Redis.
func awaitKeyQueued(t *testing.T, server *redistest.Server, key string, n int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		return server.Client().ZCard(t.Context(), "reqlock:{"+key+"}:queue").Val() == n
	}, patience, time.Millisecond)
}
