package redislock_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// A guarded handler is tested without a redis-server. The test moves the clock: a
// pod has died while it held the key, and the TTL frees it.
//
// Both calls are needed: by itself miniredis expires nothing, and its FastForward
// moves the TTLs only, while the scripts also go by TIME. A Locker renews by real
// time, so a clock that is moved by a TTL takes the leases of those that live, too.
func Example_miniredis() {
	server, now := miniredis.NewMiniRedis(), time.Now()
	server.ClockTTL(true) // TTLs go by the clock of TIME,
	server.SetTime(now)   // which stands still until it is set again
	if err := server.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	pod, _ := redislock.New(rdb)
	locks, _ := redislock.New(rdb)
	defer locks.Close()

	guard := httplock.New(locks, keyfuncs.Header("X-User-ID"), middleware.WithWait(0))
	handler := guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "done")
	}))
	post := func() {
		r := httptest.NewRequest(http.MethodPost, "/messages", nil)
		r.Header.Set("X-User-ID", "alice")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}

	_, err := pod.Acquire(context.Background(), "alice", lock.Options{TTL: lock.DefaultTTL})
	fmt.Println(err)
	_ = pod.Close() // the lease is not released
	post()
	server.SetTime(now.Add(lock.DefaultTTL))
	post()
	// Output:
	// <nil>
	// 429
	// 200
}

// Two processes on a miniredis whose clock runs exclude each other, wait for each
// other and renew. The conformance suite asks more than that: miniredis runs a
// script in about a millisecond, one at a time, so a crowd there meets the bounds of
// an outage.
func TestMiniredis(t *testing.T) {
	server := miniredis.RunT(t)
	server.ClockTTL(true)
	a, b := open(t, dial(t, server.Addr())), open(t, dial(t, server.Addr()))
	o := lock.Options{TTL: time.Second, Wait: patience}
	held := 0
	var all sync.WaitGroup
	for _, l := range []lock.Locker{a, b, a, b} {
		all.Go(func() {
			for range 10 {
				lease, err := l.Acquire(t.Context(), "key", o)
				if !assert.NoError(t, err) {
					return
				}
				held++
				assert.NoError(t, lease.Release(t.Context()))
			}
		})
	}
	all.Wait()
	require.Equal(t, 40, held)

	lease := acquire(t, a, "key", o)
	_, err := b.Acquire(t.Context(), "key", lock.Options{TTL: o.TTL, Wait: 2 * o.TTL})
	require.ErrorIs(t, err, lock.ErrBusy)
	require.NoError(t, context.Cause(lease.Context()))
	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, acquire(t, b, "key", o).Release(t.Context()))
}
