package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// A load is several processes, with a Locker each, whose callers take keys and work
// for a while, most of them briefly and some for longer than the TTL.
type load struct {
	t    testing.TB
	ttl  time.Duration
	keys []string
	stop context.CancelFunc
	all  sync.WaitGroup

	mu      sync.Mutex
	tenures map[string][]*tenure // by key, in the order in which they were acquired
	down    int                  // how often Redis was unavailable
}

// A tenure is a lease as its holder saw it.
type tenure struct {
	fence      uint64
	start, end time.Time // end is zero while it holds
	lost       error     // why the context ended before the work
	released   error
}

func startLoad(t testing.TB, ttl time.Duration, keys []string, pods ...*redislock.Locker) *load {
	ctx, cancel := context.WithCancel(t.Context())
	w := &load{t: t, ttl: ttl, keys: keys, stop: cancel, tenures: make(map[string][]*tenure)}
	for _, pod := range pods {
		for _, key := range keys {
			for range 2 {
				w.all.Go(func() { w.call(ctx, pod, key) })
			}
		}
	}
	t.Cleanup(func() { cancel(); w.all.Wait() })
	return w
}

func (w *load) call(ctx context.Context, pod *redislock.Locker, key string) {
	for ctx.Err() == nil {
		lease, err := pod.Acquire(ctx, key, lock.Options{TTL: w.ttl, Wait: time.Minute})
		if err != nil {
			if ctx.Err() == nil {
				assert.ErrorIs(w.t, err, lock.ErrUnavailable)
				w.mu.Lock()
				w.down++
				w.mu.Unlock()
				pause(10 * time.Millisecond)
			}
			continue
		}
		held := &tenure{fence: lease.Fence(), start: time.Now()}
		w.mu.Lock()
		w.tenures[key] = append(w.tenures[key], held)
		w.mu.Unlock()
		work := rand.N(10 * time.Millisecond)
		if rand.N(20) == 0 {
			work = rand.N(2 * w.ttl)
		}
		timer := time.NewTimer(work)
		var lost error
		select {
		case <-timer.C:
		case <-lease.Context().Done():
			if ctx.Err() == nil {
				lost = context.Cause(lease.Context())
			}
		}
		timer.Stop()
		w.mu.Lock()
		held.end, held.lost = time.Now(), lost
		w.mu.Unlock()
		err = lease.Release(ctx)
		w.mu.Lock()
		held.released = err
		w.mu.Unlock()
	}
}

// awaitServed waits until each key has been acquired after now.
func (w *load) awaitServed() {
	w.t.Helper()
	since := time.Now()
	var waiting string
	require.Eventually(w.t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, key := range w.keys {
			if all := w.tenures[key]; len(all) == 0 || all[len(all)-1].start.Before(since) {
				waiting = key
				return false
			}
		}
		return true
	}, 2*w.ttl+patience, time.Millisecond, "nobody got %s", waiting)
}

// requireBack requires that a key which nobody holds can be had in time, from each
// of the pods.
func (w *load) requireBack(key string, since time.Time, pods ...*redislock.Locker) {
	w.t.Helper()
	for _, pod := range pods {
		require.Eventually(w.t, func() bool {
			lease, err := pod.Acquire(w.t.Context(), key, lock.Options{TTL: w.ttl, Wait: w.ttl})
			return err == nil && assert.NoError(w.t, lease.Release(w.t.Context()))
		}, time.Until(since.Add(w.ttl+time.Second)), 10*time.Millisecond)
	}
}

// end stops the load and checks what must hold whatever happened to Redis: fences
// rise, whoever was interrupted in its work was told why, and no two held a key at
// once. An exception is what excuse, which may be nil, says of an overlap.
func (w *load) end(excuse func(older, newer *tenure) bool) {
	w.t.Helper()
	w.stop()
	w.all.Wait()
	n := 0
	for key, all := range w.tenures {
		n += len(all)
		for _, held := range all {
			if held.lost != nil {
				assert.ErrorIs(w.t, held.lost, lock.ErrLost, key)
			}
			if held.released != nil && !errors.Is(held.released, lock.ErrLost) {
				assert.ErrorIs(w.t, held.released, lock.ErrUnavailable, key)
			}
		}
		slices.SortStableFunc(all, func(a, b *tenure) int { return a.start.Compare(b.start) })
		for i := range all[1:] {
			a, b := all[i], all[i+1]
			require.Greater(w.t, b.fence, a.fence, "%s: fences rise", key)
			// What a busy machine takes to wake a holder whose lease is over.
			if b.start.Sub(a.end) < -w.ttl/20 {
				require.True(w.t, excuse != nil && excuse(a, b), "%s: two holders: %v, %v", key, a, b)
			}
		}
	}
	w.t.Logf("%d leases, %d times unavailable", n, w.down)
	require.NotZero(w.t, n)
}

func (x *tenure) String() string {
	return fmt.Sprintf("fence %d from %s to %s, lost: %v, released: %v",
		x.fence, x.start.Format(time.StampMicro), x.end.Format(time.StampMicro), x.lost, x.released)
}
