//go:build soak

package redislock_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
)

// For a minute three processes contend for one key, on lines whose round trip
// takes half of the TTL, that are cut several times a second, and whose grants
// come later than the leases last. Somebody is served all the time, and no two
// hold the key at once.
func TestHostileMinute(t *testing.T) {
	const ttl = 120 * time.Millisecond
	server := redistest.Start(t)
	minute, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var mu sync.Mutex
	var tenures []tenure
	var all sync.WaitGroup
	for range 3 {
		line := redistest.NewProxy(t, server.Addr())
		l := open(t, dial(t, line.Addr()))
		line.Delay(30 * time.Millisecond)
		line.Late("inbox:", 200*time.Millisecond)
		all.Go(func() {
			for minute.Err() == nil {
				pause := time.NewTimer(time.Duration(200+rand.IntN(300)) * time.Millisecond)
				<-pause.C
				line.CutAll()
			}
		})
		for range 3 {
			all.Go(func() {
				for minute.Err() == nil {
					lease, err := l.Acquire(minute, "key", lock.Options{TTL: ttl, Wait: 10 * time.Second})
					if err != nil {
						if minute.Err() == nil {
							assert.ErrorIs(t, err, lock.ErrUnavailable)
						}
						continue
					}
					held := tenure{fence: lease.Fence(), start: time.Now()}
					work := time.NewTimer(rand.N(2 * ttl))
					select {
					case <-work.C:
					case <-lease.Context().Done():
					}
					held.end = time.Now()
					mu.Lock()
					tenures = append(tenures, held)
					mu.Unlock()
					_ = lease.Release(minute)
				}
			})
		}
	}
	all.Wait()
	t.Logf("%d tenures", len(tenures))
	// Most acquires fail: what has to be said on a new connection takes longer
	// than the lease lasts.
	require.Greater(t, len(tenures), 15)
	slices.SortFunc(tenures, func(a, b tenure) int { return a.start.Compare(b.start) })
	// What a busy machine takes to tell a holder that its lease is over.
	const late = ttl / 4
	for i := range tenures[1:] {
		a, b := tenures[i], tenures[i+1]
		require.Greater(t, b.fence, a.fence, "fences rise in the order of starts")
		require.Less(t, a.end.Sub(b.start), late, "%+v and %+v overlap", a, b)
		require.Less(t, b.start.Sub(a.end), 10*time.Second, "nobody was served")
	}
}
