package redistest_test

import (
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
)

func TestSentinel(t *testing.T) {
	sen := redistest.StartSentinel(t, "maxmemory 5mb")
	first := sen.Master()
	require.Len(t, sen.Addrs(), 3)
	require.Len(t, sen.Servers(), 3)
	require.Same(t, sen.Servers()[0], first)
	require.ElementsMatch(t, sen.Servers(), append(sen.Replicas(), first))
	for _, srv := range sen.Servers() {
		assert.Equal(t, "5242880", srv.Client().ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"])
	}
	rdb := sen.Client(func(o *redis.FailoverOptions) { o.ClientName = "under-test" })
	require.Equal(t, "under-test", rdb.ClientGetName(t.Context()).Val())
	setReplicated(t, rdb, "a", 2)
	for _, replica := range sen.Replicas() {
		require.Equal(t, []string{"a"}, replica.Keys("*"))
	}

	// A crash. What comes back is a replica with the data of the new master.
	first.Kill()
	second := sen.AwaitMaster(first)
	require.NotSame(t, first, second)
	require.Same(t, second, sen.Master())
	require.Equal(t, []string{"a"}, second.Keys("*"))
	setEventually(t, rdb, "b")
	first.Restart()
	awaitReplica(t, first, second)
	require.Equal(t, []string{"a", "b"}, first.Keys("*"))
	require.Same(t, second, sen.Master())

	// A failover while all are up.
	setReplicated(t, rdb, "c", 2)
	sen.Failover()
	third := sen.AwaitMaster(second)
	require.NotSame(t, second, third)
	require.Equal(t, []string{"a", "b", "c"}, third.Keys("*"))
	awaitReplica(t, second, third)
	setEventually(t, rdb, "d")
	require.Equal(t, []string{"a", "b", "c", "d"}, third.Keys("*"))
}

// A master that only stands still is replaced too, and everything is gone when
// the test has ended.
func TestSentinelStopsAfterTheTest(t *testing.T) {
	var addrs []string
	t.Run("test", func(t *testing.T) {
		sen := redistest.StartSentinel(t)
		for _, srv := range sen.Servers() {
			addrs = append(addrs, srv.Addr())
		}
		addrs = append(addrs, sen.Addrs()...)
		first := sen.Master()
		first.Pause()
		require.NotSame(t, first, sen.AwaitMaster(first))
	})
	require.Len(t, addrs, 6)
	for _, addr := range addrs {
		assert.ErrorIs(t, ping(addr), syscall.ECONNREFUSED)
	}
}
