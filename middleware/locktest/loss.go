package locktest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

func lossEndsContext(t *testing.T, f Fixture) {
	lease := hold(t, f.Locker, "key", shortTTL)
	f.Lose("key")
	requireEnds(t, lease, lock.ErrLost, shortTTL+margin)
	require.ErrorIs(t, lease.Release(t.Context()), lock.ErrLost)
	for _, l := range f.lockers() {
		requireFree(t, l, "key")
	}
}

// A handler may go on for long after its lease was lost, or never come back:
// the next one must not have to wait for its Release, in any process.
func lossFreesKey(t *testing.T, f Fixture) {
	for _, l := range f.lockers() {
		lost := hold(t, f.Locker, "key", shortTTL)
		f.Lose("key")
		requireEnds(t, lost, lock.ErrLost, shortTTL+margin)
		next := hold(t, l, "key", longTTL)
		requireLost(t, lost, lock.ErrExpired, lock.ErrStolen)
		requireBusy(t, f.Locker, "key")
		requireAlive(t, next, 0)
		release(t, next)
	}
}

func releaseTellsExpired(t *testing.T, f Fixture) {
	lease := hold(t, f.Locker, "key", longTTL)
	f.Lose("key")
	requireLost(t, lease, lock.ErrExpired, lock.ErrStolen)
	require.Error(t, lease.Context().Err())
	for _, l := range f.lockers() {
		requireFree(t, l, "key")
	}
}

func releaseTellsStolen(t *testing.T, f Fixture) {
	lease := hold(t, f.Locker, "key", longTTL)
	f.Lose("key")
	thief := hold(t, f.Peer, "key", longTTL)
	requireLost(t, lease, lock.ErrStolen, lock.ErrExpired)
	require.Error(t, lease.Context().Err())
	requireBusy(t, f.Locker, "key") // the thief's lock was not deleted
	requireAlive(t, thief, 0)
	release(t, thief)
	requireFree(t, f.Locker, "key")
}

func stolenEndsContext(t *testing.T, f Fixture) {
	const ttl = 2 * shortTTL // the thief must come before the next renewal
	lease := hold(t, f.Locker, "key", ttl)
	f.Lose("key")
	thief := hold(t, f.Peer, "key", longTTL)
	requireEnds(t, lease, lock.ErrStolen, ttl+margin)
	requireLost(t, lease, lock.ErrStolen, lock.ErrExpired)
	requireAlive(t, thief, 0)
	release(t, thief)
}

// requireLost releases a lost lease, twice: both calls say want and not other.
func requireLost(t *testing.T, lease lock.Lease, want, other error) {
	t.Helper()
	for range 2 {
		err := lease.Release(t.Context())
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, err, lock.ErrLost)
		require.NotErrorIs(t, err, other)
	}
}
