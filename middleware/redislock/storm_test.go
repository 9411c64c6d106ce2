//go:build soak

package redislock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// holders notes who holds which key. A lease that its holder has been told the loss
// of counts no more.
type holders struct {
	mu     sync.Mutex
	now    map[string]lock.Lease
	fences map[string]uint64
	served int
}

func (h *holders) enter(t *testing.T, s lock.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.Context().Err() != nil {
		return
	}
	if other := h.now[s.Key()]; other != nil && other.Context().Err() == nil {
		assert.Fail(t, "two hold a key", "%s: fences %d and %d", s.Key(), other.Fence(), s.Fence())
	}
	assert.Greater(t, s.Fence(), h.fences[s.Key()])
	h.now[s.Key()], h.fences[s.Key()] = s, s.Fence()
	h.served++
}

func (h *holders) leave(s lock.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now[s.Key()] == s {
		delete(h.now, s.Key())
	}
}

// Callers of three processes come and go at random, leave at any moment, and share
// their trips, while things fail again and again: a key is never held by two, its
// fences rise, and nothing stays behind.
func TestStorm(t *testing.T) {
	const lasts = 8 * time.Second
	subscriptionsKilled := failure{"subscriptions killed", func(t *testing.T, b backend) {
		_ = b.Client().ClientKillByFilter(t.Context(), "TYPE", "pubsub")
	}, nil}
	for _, f := range []failure{{"calm", nil, nil}, cut, subscriptionsKilled, noReplies, stopped, flushed} {
		t.Run(f.name, func(t *testing.T) {
			b := startBackend(t)
			var locks []*redislock.Locker
			for i, poolSize := range []int{1, 2, 20} {
				client := redis.NewClient(&redis.Options{Addr: b.line.Addr(), PoolSize: poolSize})
				t.Cleanup(func() { _ = client.Close() })
				locks = append(locks, open(t, client, redislock.WithHandoff([]int{16, 1, 16}[i]),
					redislock.WithObserver(func(context.Context, lock.Event) {})))
			}
			b.line.Delay(2 * time.Millisecond)
			ctx, stop := context.WithTimeout(t.Context(), lasts)
			defer stop()
			h := &holders{now: make(map[string]lock.Lease), fences: make(map[string]uint64)}
			var all sync.WaitGroup
			for i := range 90 {
				all.Go(func() {
					for ctx.Err() == nil {
						h.comeAndGo(t, locks[i%len(locks)], i)
					}
				})
			}
			for f.begin != nil && ctx.Err() == nil {
				f.begin(t, b)
				if f.over != nil {
					pause(rand.N(700 * time.Millisecond))
					f.over(t, b)
				}
				pause(rand.N(300 * time.Millisecond))
			}
			all.Wait()
			t.Logf("%d served", h.served)
			require.Greater(t, h.served, 100)
			require.Eventually(t, func() bool { // what was left without a reply is cleaned up
				return len(b.Keys("*}:[^ft]*")) == 0 // but fences and tombstones
			}, 2*patience, 50*time.Millisecond, "%v", b.Keys("*}:[^ft]*"))
		})
	}
}

// comeAndGo is one caller, once: it tries or waits, and may leave at any moment.
func (h *holders) comeAndGo(t *testing.T, l lock.Locker, caller int) {
	key := fmt.Sprint("key", rand.N(6))
	if rand.N(4) == 0 {
		key = fmt.Sprint("own", caller)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rand.N(4) == 0 {
		defer time.AfterFunc(rand.N(200*time.Millisecond), cancel).Stop()
	}
	wait := time.Duration(rand.N(5)) * 150 * time.Millisecond
	start := time.Now()
	lease, err := l.Acquire(ctx, key, lock.Options{TTL: 2 * time.Second, Wait: wait})
	assert.Less(t, time.Since(start), wait+3*time.Second)
	if err != nil {
		return
	}
	h.enter(t, lease)
	select {
	case <-time.After(rand.N(10 * time.Millisecond)):
	case <-lease.Context().Done():
	}
	h.leave(lease)
	_ = lease.Release(ctx)
}
