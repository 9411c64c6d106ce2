package redislock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// A killing is of a master that has keys.
type killing struct {
	keys       []string // in use
	held, free string   // held for a long time, and by nobody
	replaced   func()   // returns when another master has them
}

// killUnderLoad kills a master and lets it come back: leases on it are kept or known to
// be lost, and its keys are served again within a TTL.
func killUnderLoad(t *testing.T, ttl time.Duration, master *redistest.Server, k killing, pods ...*redislock.Locker) {
	t.Helper()
	w := startLoad(t, ttl, k.keys, pods...)
	w.awaitServed()
	held := acquire(t, pods[0], k.held, lock.Options{TTL: ttl})
	requireReplicated(t, master)
	killed := time.Now()
	master.Kill()
	k.replaced()
	w.requireBack(k.free, time.Now(), pods...)
	w.awaitServed()
	master.Restart()
	pause(ttl / 2)
	w.awaitServed()
	w.end(lostInFailover(killed))
	require.NoError(t, held.Context().Err(), "a lease that was replicated outlives its master")
	require.NoError(t, held.Release(t.Context()))
}

// requireReplicated waits until a replica has all that its master has been told.
func requireReplicated(t *testing.T, master *redistest.Server) {
	t.Helper()
	// Only the connection that has written counts: see WAIT.
	conn := master.Client().Conn()
	defer conn.Close()
	require.NoError(t, conn.Publish(t.Context(), "replicated", "").Err())
	n, err := conn.Wait(t.Context(), 1, patience).Result()
	require.NoError(t, err)
	require.Positive(t, n)
}

// acquireUnreplicated kills a master that has granted a lock of which its replica
// has not heard.
func acquireUnreplicated(t *testing.T, master, replica *redistest.Server, get func() lock.Lease) lock.Lease {
	t.Helper()
	replica.Pause()
	// What has been sent to it would reach it afterwards.
	require.NoError(t, master.Client().ClientKillByFilter(t.Context(), "TYPE", "replica").Err())
	lease := get()
	master.Kill()
	replica.Resume()
	return lease
}

// acquireBack acquires a key once the service is back, which is to be within the
// TTL.
func acquireBack(t *testing.T, l lock.Locker, key string, ttl time.Duration) (lease lock.Lease) {
	t.Helper()
	require.Eventually(t, func() (ok bool) {
		var err error
		lease, err = l.Acquire(t.Context(), key, lock.Options{TTL: ttl, Wait: ttl})
		return err == nil
	}, ttl+time.Second, 10*time.Millisecond)
	return lease
}

// A resource refuses who comes with a fence below one that it has seen.
type resource struct{ newest uint64 }

func (r *resource) write(fence uint64) bool {
	if fence < r.newest {
		return false
	}
	r.newest = fence
	return true
}

// requireStale requires that of two holders of a key, of which the older does not
// know of the newer, the older is told, and its writes are refused before that.
func requireStale(t *testing.T, older, newer lock.Lease) {
	t.Helper()
	var r resource
	require.True(t, r.write(older.Fence()))
	require.True(t, r.write(newer.Fence()))
	require.False(t, r.write(older.Fence()), "the writer is stale")
	require.ErrorIs(t, awaitEnd(t, older), lock.ErrLost)
	require.ErrorIs(t, older.Release(t.Context()), lock.ErrLost)
	require.NoError(t, newer.Context().Err())
	require.NoError(t, newer.Release(t.Context()))
}

// lostInFailover excuses an overlap where the master died that had granted the key to
// the older, who was told.
func lostInFailover(killed time.Time) func(older, newer *tenure) bool {
	return func(older, newer *tenure) bool {
		return older.start.Before(killed) && newer.start.After(killed) && older.lost != nil
	}
}
