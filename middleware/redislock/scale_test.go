package redislock_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// late is longer than the package allows a release. Most of that is for a slow
// machine on which thousands of goroutines are ready to run at once.
const late = 3 * time.Second

// A crowd of requests on one key, and few connections: each of them is served
// or turned away in time, no release is late, and none leaves anything behind.
func TestL3_FiveThousandRequestsOnOneKey(t *testing.T) {
	const (
		requests = 5000
		rounds   = 4
		wait     = time.Second
	)
	crowds := []struct {
		name   string
		pods   int
		queue  int
		reason middleware.Reason // why most are turned away
	}{
		{"short queue", 1, 0, middleware.QueueFull},
		{"long queue", 1, requests, middleware.Busy},
		{"two pods", 2, requests, middleware.Busy},
	}
	for _, c := range crowds {
		t.Run(c.name, func(t *testing.T) {
			server := redistest.Start(t)
			var seen atomic.Pointer[guardtest.Events] // of one round
			observe := func(ctx context.Context, e lock.Event) { seen.Load().Observe(ctx, e) }
			var inside atomic.Int32
			work := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				assert.EqualValues(t, 1, inside.Add(1), "holders at once")
				<-time.After(time.Millisecond)
				inside.Add(-1)
			})
			var releases slowest
			var pods []http.Handler
			for range c.pods {
				client := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 10})
				t.Cleanup(func() { _ = client.Close() })
				l := timed{open(t, client, redislock.WithObserver(observe)), &releases}
				guard := httplock.New(l, keyfuncs.Header("X-User-ID"), middleware.WithWait(wait),
					middleware.WithMaxQueue(c.queue), middleware.WithObserver(observe))
				pods = append(pods, guard(work))
			}
			var second footprint
			for round := range rounds {
				seen.Store(new(guardtest.Events))
				var answered slowest
				served := rush(t, pods, requests, &answered)
				acquired, released, denied := tell(t, seen.Load())
				t.Logf("%d served, %v denied, slowest answer %v, slowest release so far %v", served, denied, &answered, &releases)
				assert.Less(t, answered.get(), wait+late)
				assert.Equal(t, served, acquired)
				assert.Equal(t, served, released)
				assert.Positive(t, served)
				assert.Positive(t, denied[c.reason])
				delete(denied, c.reason)
				delete(denied, middleware.Busy) // a slow machine does not get through a short queue, either
				assert.Empty(t, denied)
				require.Empty(t, server.Keys("*:lock"))

				seen.Store(nil)
				if now := measureFootprint(); round == 1 {
					second = now
				} else if round == rounds-1 {
					now.requireFlat(t, second, 256<<10)
				}
			}
			assert.Less(t, releases.get(), late)
		})
	}
}

// rush sends n requests at once, evenly to the pods, and returns how many were
// served. All others must be told to come again.
func rush(t *testing.T, pods []http.Handler, n int, answered *slowest) (served int) {
	t.Helper()
	responses := make([]*httptest.ResponseRecorder, n)
	gate := make(chan struct{})
	var all sync.WaitGroup
	for i := range responses {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("X-User-ID", "key")
		w := httptest.NewRecorder()
		responses[i] = w
		all.Go(func() {
			<-gate
			start := time.Now()
			pods[i%len(pods)].ServeHTTP(w, r)
			answered.note(time.Since(start))
		})
	}
	close(gate)
	all.Wait()
	for _, w := range responses {
		if w.Code == http.StatusOK {
			served++
			continue
		}
		require.Equal(t, http.StatusTooManyRequests, w.Code, w.Body)
		seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
		require.NoError(t, err)
		require.Positive(t, seconds)
	}
	return served
}

// tell counts what was told of a crowd. Leases that were lost, releases that
// failed and outages have no place in it.
func tell(t *testing.T, seen *guardtest.Events) (acquired, released int, denied map[middleware.Reason]int) {
	t.Helper()
	denied = make(map[middleware.Reason]int)
	for _, e := range seen.All() {
		switch e := e.(type) {
		case lock.Acquired:
			acquired++
		case lock.Released:
			require.NoError(t, e.Err)
			released++
		case lock.Denied:
			denied[middleware.Reason(e.Reason)]++
		default:
			require.Failf(t, "unexpected event", "%T %+v", e, e)
		}
	}
	return acquired, released, denied
}

// Many leases are kept by one scheduler, with no goroutine for each, also when
// the Locker is busy with others.
func TestTenThousandLeases(t *testing.T) {
	const (
		held  = 10_000
		ttl   = lock.DefaultTTL
		burst = 5 * time.Second
		quiet = ttl + time.Second // a lease that was not renewed since the burst is lost by then
	)
	server := redistest.Start(t)
	events := make(chan lock.Event, 1) // there is to be none
	var releases slowest
	l := timed{open(t, server.Client(), redislock.WithObserver(func(_ context.Context, e lock.Event) {
		select {
		case events <- e:
		default:
		}
	})), &releases}
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))

	before := runtime.NumGoroutine()
	leases := make([]lock.Lease, held)
	each(t, held, func(i int) {
		lease, err := l.Acquire(t.Context(), fmt.Sprint("key", i), lock.Options{Wait: patience})
		assert.NoError(t, err)
		leases[i] = lease
	})
	require.False(t, t.Failed())
	require.LessOrEqual(t, runtime.NumGoroutine(), before+fewGoroutines)

	var pairs atomic.Int32
	over := time.Now().Add(burst)
	each(t, atOnce, func(i int) {
		for time.Now().Before(over) {
			lease, err := l.Acquire(t.Context(), fmt.Sprint("other", i), lock.Options{Wait: patience})
			if !assert.NoError(t, err) || !assert.NoError(t, lease.Release(t.Context())) {
				return
			}
			pairs.Add(1)
		}
	})

	start, sent, read := time.Now(), server.Commands("evalsha")["evalsha"], reads(t, server)
	requireNoEvent(t, events, quiet)
	took, renewed := time.Since(start), server.Commands("evalsha")["evalsha"]-sent
	read = reads(t, server) - read
	t.Logf("%d other leases in %v; then %d renewals in %v, which the server read at %d times", pairs.Load(), burst, renewed, took, read)
	assert.LessOrEqual(t, float64(renewed)/held, 1+float64(took)/float64(ttl/3), "more often than at a third of the TTL")
	assert.Less(t, read, renewed/10, "renewals come together")
	require.LessOrEqual(t, runtime.NumGoroutine(), before+fewGoroutines)
	for _, lease := range leases {
		require.NoError(t, context.Cause(lease.Context()), lease.Key())
	}

	each(t, held, func(i int) { assert.NoError(t, leases[i].Release(t.Context())) })
	t.Logf("slowest release %v", &releases)
	assert.Less(t, releases.get(), late)
	requireNoEvent(t, events, 0)
	requireOnlyFences(t, server, ttl)
}

func requireNoEvent(t *testing.T, events <-chan lock.Event, within time.Duration) {
	t.Helper()
	over := time.NewTimer(within)
	defer over.Stop()
	var event lock.Event
	select {
	case event = <-events:
	case <-over.C:
		select {
		case event = <-events:
		default:
		}
	}
	require.Nil(t, event)
}

// A key that is used once leaves a fence, which expires. How a million of them
// go is TestMillionOneOffKeys, under the build tag soak.
func TestOneOffKeys(t *testing.T) {
	server := redistest.Start(t)
	l := open(t, server.Client())
	const keys, ttl = 2000, 2 * time.Second
	useOnce(t, l, keys, ttl)
	requireOnlyFences(t, server, ttl)
	require.Len(t, server.Keys("*"), keys)
}

// useOnce acquires and releases keys, each of them once.
func useOnce(t *testing.T, l lock.Locker, keys int, ttl time.Duration) {
	t.Helper()
	each(t, keys, func(i int) {
		lease, err := l.Acquire(t.Context(), fmt.Sprint("key", i), lock.Options{TTL: ttl, Wait: patience})
		if assert.NoError(t, err) {
			assert.NoError(t, lease.Release(t.Context()))
		}
	})
	require.False(t, t.Failed())
}

// requireOnlyFences checks what is left of leases with this TTL when all of them
// have been released: fences, which go a TTL and a minute later at the latest.
func requireOnlyFences(t *testing.T, server *redistest.Server, ttl time.Duration) {
	t.Helper()
	require.Empty(t, server.Keys("*}:[^f]*"), "what is no fence")
	var ttls []*redis.DurationCmd
	_, err := server.Client().Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for _, name := range server.Keys("*") {
			ttls = append(ttls, p.PTTL(t.Context(), name))
		}
		return nil
	})
	require.NoError(t, err)
	for _, left := range ttls {
		const gone = -2 // since it was listed; -1 is a key that never expires
		if left.Val() != gone {
			require.Positive(t, left.Val(), left)
			require.LessOrEqual(t, left.Val(), ttl+time.Minute, left)
		}
	}
}

// atOnce is how many goroutines there are for what is done to many keys.
const atOnce = 64

// each calls do for 0 to n-1, atOnce at a time, until the test has failed.
func each(t *testing.T, n int, do func(i int)) {
	var all sync.WaitGroup
	for first := range min(n, atOnce) {
		all.Go(func() {
			for i := first; i < n && !t.Failed(); i += atOnce {
				do(i)
			}
		})
	}
	all.Wait()
}

// timed is a Locker that notes how long its releases take.
type timed struct {
	lock.Locker
	releases *slowest
}

func (l timed) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	lease, err := l.Locker.Acquire(ctx, key, o)
	if err != nil {
		return nil, err
	}
	return timedLease{lease, l.releases}, nil
}

type timedLease struct {
	lock.Lease
	releases *slowest
}

func (l timedLease) Release(ctx context.Context) error {
	start := time.Now()
	defer func() { l.releases.note(time.Since(start)) }()
	return l.Lease.Release(ctx)
}

// slowest keeps the longest of the times that it is told.
type slowest struct {
	mu   sync.Mutex
	time time.Duration
}

func (s *slowest) note(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.time = max(s.time, d)
}

func (s *slowest) get() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.time
}

func (s *slowest) String() string { return s.get().String() }

// A footprint is what the process has in use when nothing is going on.
type footprint struct {
	heap       int64 // bytes
	goroutines int
}

// fewGoroutines is more than those that are about to end or to send something,
// and fewer than any number that grows with the work.
const fewGoroutines = 100

func measureFootprint() footprint {
	// What a sync.Pool has is freed by the second collection.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{int64(m.HeapAlloc), runtime.NumGoroutine()}
}

// requireFlat checks that f is what it was before, but for some bytes. Each
// connection that was opened meanwhile has 64 KiB of buffers.
func (f footprint) requireFlat(t *testing.T, before footprint, bytes int64) {
	t.Helper()
	t.Logf("heap %d KiB, %d before; %d goroutines, %d before", f.heap>>10, before.heap>>10, f.goroutines, before.goroutines)
	require.Less(t, f.heap, before.heap+bytes)
	require.LessOrEqual(t, f.goroutines, before.goroutines+fewGoroutines)
}
