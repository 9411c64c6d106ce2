package redistest_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
)

func TestClusterFailover(t *testing.T) {
	c := redistest.StartCluster(t, "maxmemory 5mb")
	servers := c.Servers()
	require.Len(t, servers, 6)
	require.Len(t, c.Addrs(), 6)
	require.Equal(t, servers[:3], c.Masters())
	for i, srv := range servers {
		assert.Equal(t, "5242880", srv.Client().ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"])
		if i < 3 {
			assert.Same(t, servers[i+3], c.Replica(srv))
			assert.Same(t, srv, c.Owner(c.Key(srv, "key-")))
		}
	}
	// By default go-redis looks once a minute whether a master it cannot reach
	// is still the master.
	rdb := c.Client(func(o *redis.ClusterOptions) { o.ClusterStateReloadInterval = 100 * time.Millisecond })
	for _, owner := range servers[:3] {
		require.NoError(t, rdb.Set(t.Context(), c.Key(owner, "a-"), 1, 0).Err())
	}

	// A crash. What comes back is a replica with the data of the new master.
	first, replica := servers[1], servers[4]
	a, b := c.Key(first, "a-"), c.Key(first, "b-")
	setReplicated(t, first.Client(), a, 1)
	first.Kill()
	require.Same(t, replica, c.AwaitOwner(b, first))
	require.Equal(t, []*redistest.Server{servers[0], replica, servers[2]}, c.Masters())
	require.Equal(t, []string{a}, replica.Keys("*"))
	setEventually(t, rdb, b)
	first.Restart()
	awaitReplica(t, first, replica)
	require.Same(t, first, c.Replica(replica))
	require.Same(t, replica, c.Owner(a))
	require.ElementsMatch(t, []string{a, b}, replica.Keys("*"))

	// A failover while all are up.
	c.Failover(replica)
	require.Same(t, first, c.AwaitOwner(a, replica))
	awaitReplica(t, replica, first)
	setEventually(t, rdb, a)
}

func TestClusterMigrate(t *testing.T) {
	var all []string
	t.Run("test", func(t *testing.T) {
		c := redistest.StartCluster(t)
		all = c.Addrs()
		rdb := c.Client()
		from, to := c.Masters()[0], c.Masters()[2]
		key := c.Key(from, "key-")
		require.NoError(t, rdb.Set(t.Context(), key, "v", time.Hour).Err())
		require.NoError(t, rdb.Set(t.Context(), "{"+key+"}:gone", 1, time.Millisecond).Err())

		finish := c.BeginMigration(key, to)
		require.Same(t, from, c.Owner(key))
		require.Same(t, from, c.Owner("{"+key+"}:other"))
		new1, new2 := "{"+key+"}:1", "{"+key+"}:2"
		direct := from.Client()
		assert.NoError(t, direct.Get(t.Context(), key).Err())
		assert.ErrorContains(t, direct.MGet(t.Context(), key, new1).Err(), "TRYAGAIN")
		assert.ErrorContains(t, direct.MGet(t.Context(), new1, new2).Err(), "ASK ")
		require.NoError(t, rdb.Set(t.Context(), new1, 1, 0).Err(), "the client goes where it is sent")
		require.NoError(t, rdb.Set(t.Context(), new2, 2, 0).Err())
		require.ElementsMatch(t, []string{new1, new2}, to.Keys("*"))
		assert.ErrorContains(t, rdb.MGet(t.Context(), new1, new2+"x").Err(), "TRYAGAIN", "some are missing there, too")
		finish()
		require.Same(t, to, c.AwaitOwner(key, from))
		require.Same(t, to, c.Owner(key))
		require.ElementsMatch(t, []string{key, new1, new2}, to.Keys("*"))
		require.Empty(t, from.Keys("*"))
		assert.Equal(t, "v", rdb.Get(t.Context(), key).Val())
		assert.InDelta(t, time.Hour, rdb.PTTL(t.Context(), key).Val(), float64(5*time.Minute))
		assert.ErrorContains(t, direct.Get(t.Context(), key).Err(), "MOVED")

		c.Migrate(key, from)
		require.Same(t, from, c.AwaitOwner(key, to))
		require.Len(t, from.Keys("*"), 3)
		require.Equal(t, from, c.Masters()[0])
		to.Pause()
	})
	require.Len(t, all, 6)
	for _, addr := range all {
		assert.ErrorIs(t, ping(addr), syscall.ECONNREFUSED)
	}
}
