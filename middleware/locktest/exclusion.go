package locktest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

// contend has workers, spread over lockers, hold keys again and again, and
// calls inside while a lease is held.
func contend(t *testing.T, lockers []lock.Locker, keys []string, workers, rounds int, inside func(key int, lease lock.Lease)) {
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for r := range rounds {
				k := (w + r) % len(keys)
				o := lock.Options{TTL: longTTL, Wait: 3 * patience, MaxQueue: workers}
				lease, err := lockers[w%len(lockers)].Acquire(t.Context(), keys[k], o)
				if !assert.NoError(t, err) {
					return
				}
				inside(k, lease)
				assert.NoError(t, lease.Release(t.Context()))
			}
		})
	}
	wg.Wait()
}

func neverOverlap(t *testing.T, f Fixture) { overlap(t, f.Locker) }

func neverOverlapPeer(t *testing.T, f Fixture) { overlap(t, f.Locker, f.Peer) }

func overlap(t *testing.T, lockers ...lock.Locker) {
	const workers, rounds = 24, 20
	// Plain variables on purpose: where two hold a key at once, the race
	// detector sees it even if their timing hides it.
	type guarded struct {
		inside bool
		count  int
		last   lock.Lease
	}
	keys := []string{"a", "b", "c"}
	cells := make([]guarded, len(keys))
	contend(t, lockers, keys, workers, rounds, func(key int, lease lock.Lease) {
		c := &cells[key]
		assert.False(t, c.inside, "two hold the key at once")
		if c.last != nil {
			assert.Error(t, c.last.Context().Err(), "the context of the holder before has not ended")
		}
		c.inside, c.last = true, lease
		count := c.count
		time.Sleep(10 * time.Microsecond) // a little work, for the others to cut in
		c.count = count + 1
		c.inside = false
	})
	total := 0
	for _, c := range cells {
		total += c.count
	}
	require.Equal(t, workers*rounds, total, "updates were lost: two held a key at once")
}

func keysAreIndependent(t *testing.T, f Fixture) {
	held := hold(t, f.Locker, "held", longTTL)
	waiter := enqueue(t.Context(), t, f.Locker, "held", 1)
	requireFree(t, f.Locker, "other")
	release(t, held)
	a := await(t, waiter, patience, "the waiter's turn")
	require.NoError(t, a.err)
	release(t, a.lease)
}

func outlivesTTL(t *testing.T, f Fixture) { outlives(t, f.Locker, f.Locker) }

func outlivesTTLPeer(t *testing.T, f Fixture) { outlives(t, f.Locker, f.Peer) }

func outlives(t *testing.T, holder, other lock.Locker) {
	lease := hold(t, holder, "key", shortTTL)
	got, err := other.Acquire(t.Context(), "key", lock.Options{TTL: shortTTL, Wait: 3 * shortTTL})
	requireDenied(t, got, err, lock.ErrBusy)
	requireAlive(t, lease, 0)
	release(t, lease)
	requireFree(t, other, "key")
}

func thousandsOfKeys(t *testing.T, f Fixture) {
	const n, workers = 5000, 64
	each := func(do func(i int)) {
		var next atomic.Int64
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < n && !t.Failed(); i = int(next.Add(1)) - 1 {
					do(i)
				}
			})
		}
		wg.Wait()
	}
	key := func(i int) string { return fmt.Sprintf("key-%d", i) }
	try := func(i int) (lock.Lease, error) {
		return f.Locker.Acquire(t.Context(), key(i), lock.Options{TTL: longTTL})
	}

	leases := make([]lock.Lease, n)
	each(func(i int) {
		var err error
		leases[i], err = try(i)
		assert.NoError(t, err)
	})
	require.False(t, t.Failed(), "all keys are held at once")
	each(func(i int) {
		_, err := try(i)
		assert.ErrorIs(t, err, lock.ErrBusy)
	})
	each(func(i int) { assert.NoError(t, leases[i].Release(t.Context())) })
	each(func(i int) {
		lease, err := try(i)
		if assert.NoError(t, err, "all keys are free again") {
			assert.NoError(t, lease.Release(t.Context()))
		}
	})
}

func anyBytes(t *testing.T, f Fixture) {
	long := strings.Repeat("k", 100_000)
	sum := sha256.Sum256([]byte(long + "1"))
	keys := []string{
		"a", "A", " a", "a ", "a:b", "a:", ":a", ":", "a/b", "a\\b", "a*", "a?", "%61",
		"{a}", "{a}b", "{b}", "a{b}", "{", "}", "{}", "{}a", "{{a}}",
		"a\n", "a\r\n", "\n", "a\x00", "a\x00b", "\x00",
		"\xff", "\xfe", "\xff\xfe", "\ufffd", "é", "e\u0301",
		long, long + "1", long + "2", string(sum[:]), hex.EncodeToString(sum[:]),
	}
	leases := make([]lock.Lease, len(keys))
	for i, key := range keys {
		lease, err := f.Locker.Acquire(t.Context(), key, lock.Options{TTL: longTTL})
		require.NoErrorf(t, err, "%.20q shares a lock with a key before it", key)
		require.True(t, lease.Key() == key, "Key is the key as given")
		leases[i] = lease
	}
	for i, key := range keys {
		requireBusy(t, f.Locker, key)
		release(t, leases[i])
		requireFree(t, f.Locker, key)
	}
}

func emptyKey(t *testing.T, f Fixture) {
	for _, wait := range []time.Duration{0, patience} {
		lease, err := f.Locker.Acquire(t.Context(), "", lock.Options{Wait: wait})
		requireDenied(t, lease, err, nil)
	}
	held, err := f.Locker.Interrupt(t.Context(), "")
	require.False(t, held)
	requireDenied(t, nil, err, nil)
}

func badOptions(t *testing.T, f Fixture) {
	for _, o := range []lock.Options{
		{TTL: -time.Second},
		{TTL: lock.MinTTL - 1},
		{Wait: -1},
		{Wait: time.Second, MaxQueue: -1},
	} {
		lease, err := f.Locker.Acquire(t.Context(), "key", o)
		requireDenied(t, lease, err, nil)

		done, cancel := context.WithCancel(t.Context())
		cancel()
		lease, err = f.Locker.Acquire(done, "key", o)
		requireDenied(t, lease, err, nil)
	}
	requireFree(t, f.Locker, "key")
}
