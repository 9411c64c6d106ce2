package locktest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

// fences checks that what a key's holders get rises, or is always 0: a Locker
// that cannot fence.
type fences struct {
	seen bool
	last uint64
}

func (f *fences) check(t *testing.T, lease lock.Lease) {
	t.Helper()
	fence := lease.Fence()
	switch {
	case !f.seen:
	case f.last == 0:
		assert.Zero(t, fence, "a fence after none")
	default:
		assert.Greater(t, fence, f.last, "a fence that does not rise")
	}
	assert.Less(t, fence, uint64(1)<<53)
	f.seen, f.last = true, fence
}

func fencesRise(t *testing.T, f Fixture) { rise(t, f.Locker) }

func fencesRisePeer(t *testing.T, f Fixture) { rise(t, f.Locker, f.Peer) }

func rise(t *testing.T, lockers ...lock.Locker) {
	keys := []string{"a", "b"}
	seen := make([]fences, len(keys))
	for i := range 20 { // each free in between
		for k, key := range keys {
			lease := hold(t, lockers[i%len(lockers)], key, longTTL)
			seen[k].check(t, lease)
			release(t, lease)
		}
	}
	contend(t, lockers, keys, 8, 20, func(key int, lease lock.Lease) { seen[key].check(t, lease) })
}

func fencesRiseAfterLoss(t *testing.T, f Fixture) {
	var seen fences
	for range 5 {
		for _, l := range f.lockers() {
			lease := hold(t, l, "key", longTTL)
			seen.check(t, lease)
			f.Lose("key")
			require.ErrorIs(t, lease.Release(t.Context()), lock.ErrLost)
		}
	}
}
