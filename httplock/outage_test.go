package httplock_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// A service has a guarded handler on an HTTP server, and notes how its keys, which are
// the paths, were held.
type service struct {
	t     testing.TB
	locks *redislock.Locker
	url   string
	work  func(key string) // what a handler does; nil: it takes 2 ms

	mu       sync.Mutex
	running  map[string]int    // handlers, by key
	fences   map[string]uint64 // of the newest holder
	overlaps int               // handlers that were not alone
	unfenced int               // those without a fence
	lapses   int               // those whose fence was not above the one before
}

func serve(t testing.TB, client redis.UniversalClient, opts ...middleware.Option) *service {
	t.Helper()
	quiet := func(context.Context, lock.Event) {}
	locks, err := redislock.New(client, redislock.WithObserver(quiet))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, locks.Close()) })
	s := &service{t: t, locks: locks, running: make(map[string]int), fences: make(map[string]uint64)}
	guard := httplock.New(locks, keyfuncs.Path, append([]middleware.Option{middleware.WithObserver(quiet), middleware.WithTTL(outageTTL)}, opts...)...)
	server := httptest.NewServer(guard(s))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

const outageTTL = 2 * time.Second

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lease, ok := lock.From(r.Context())
	assert.True(s.t, ok)
	key := lease.Key()
	s.mu.Lock()
	if s.running[key]++; s.running[key] > 1 {
		s.overlaps++
	}
	switch fence := lease.Fence(); {
	case fence == 0:
		s.unfenced++
	case fence <= s.fences[key]:
		s.lapses++
	default:
		s.fences[key] = fence
	}
	s.mu.Unlock()
	if s.work != nil {
		s.work(key)
	} else {
		time.Sleep(2 * time.Millisecond)
	}
	s.mu.Lock()
	s.running[key]--
	s.mu.Unlock()
	_, _ = io.WriteString(w, "done")
}

// A reply is what a client gets.
type reply struct {
	start  time.Time
	took   time.Duration
	status int
	body   string
}

func (s *service) post(client *http.Client, key string) reply {
	a := reply{start: time.Now()}
	resp, err := client.Post(s.url+"/"+key, "application/json", strings.NewReader("{}"))
	if !assert.NoError(s.t, err) {
		return a
	}
	body, err := io.ReadAll(resp.Body)
	assert.NoError(s.t, err)
	assert.NoError(s.t, resp.Body.Close())
	a.took, a.status, a.body = time.Since(a.start), resp.StatusCode, string(body)
	if a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests {
		assert.NotEmpty(s.t, resp.Header.Get("Retry-After"))
	}
	return a
}

// A load is of requests that come at a rate, whatever becomes of those before.
type load struct {
	stop func()

	mu      sync.Mutex
	replies []reply
}

// load has so many requests a second come for so many keys.
func (s *service) load(perSecond, keys int) *load {
	transport := &http.Transport{MaxIdleConnsPerHost: perSecond}
	client := &http.Client{Transport: transport}
	ctx, cancel := context.WithCancel(s.t.Context())
	l := new(load)
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			all.Go(func() {
				a := s.post(client, fmt.Sprint("key", n%keys))
				l.mu.Lock()
				l.replies = append(l.replies, a)
				l.mu.Unlock()
			})
		}
	})
	l.stop = sync.OnceFunc(func() { cancel(); all.Wait(); transport.CloseIdleConnections() })
	s.t.Cleanup(l.stop)
	return l
}

// between returns the replies to requests that came in that time, in order.
func (l *load) between(from, until time.Time) (found []reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.replies {
		if a.start.After(from) && a.start.Before(until) {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b reply) int { return a.start.Compare(b.start) })
	return found
}

func statuses(replies []reply) map[int]int {
	n := make(map[int]int)
	for _, a := range replies {
		n[a.status]++
	}
	return n
}

// percentile returns what all but so many of a hundred took at most.
func percentile(replies []reply, p int) time.Duration {
	took := make([]time.Duration, len(replies))
	for i, a := range replies {
		took[i] = a.took
	}
	slices.Sort(took)
	return took[(len(took)-1)*p/100]
}

// requireToldOnce requires of an outage that has gone on since a time that clients were
// told of it within a second, and of nothing else; and at once after the first had been.
func requireToldOnce(t *testing.T, l *load, began time.Time) {
	t.Helper()
	all := l.between(began, time.Now().Add(-time.Second))
	var told time.Time
	for _, a := range all {
		require.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, a.status, a.body)
		require.Less(t, a.took, time.Second)
		if end := a.start.Add(a.took); a.status == http.StatusServiceUnavailable && (told.IsZero() || end.Before(told)) {
			told = end
		}
	}
	require.False(t, told.IsZero(), "nobody was told")
	after := l.between(told, time.Now().Add(-time.Second))
	t.Logf("told after %v; then %d replies: median %v, 90 %% %v, 99 %% %v, all %v", told.Sub(began).Round(time.Millisecond),
		len(after), percentile(after, 50), percentile(after, 90), percentile(after, 99), percentile(after, 100))
	require.Equal(t, map[int]int{http.StatusServiceUnavailable: len(after)}, statuses(after))
	require.Less(t, percentile(after, 90), 5*time.Millisecond) // the rest is the machine's
}

// requireServed requires that from some moment on, which is not later than that, all
// requests are served.
func requireServed(t *testing.T, l *load, by time.Time) {
	t.Helper()
	time.Sleep(time.Until(by.Add(500 * time.Millisecond)))
	served := l.between(by, time.Now().Add(-100*time.Millisecond))
	require.NotEmpty(t, served)
	require.Equal(t, map[int]int{http.StatusOK: len(served)}, statuses(served))
}

func newClient(t testing.TB, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// At 200 requests a second an outage costs clients a second once, then they are told
// at once, and after it they are served without anybody's help.
func TestL23_H17_OutageUnderLoad(t *testing.T) {
	failures := []struct {
		name        string
		begin, over func(*redistest.Server, *redistest.Proxy)
		back        time.Duration // until all are served again
	}{
		{"refused", func(_ *redistest.Server, p *redistest.Proxy) { p.Refuse(true); p.CutAll() }, func(_ *redistest.Server, p *redistest.Proxy) { p.Refuse(false) }, time.Second},
		{"black hole", func(_ *redistest.Server, p *redistest.Proxy) { p.BlackHole(true) }, func(_ *redistest.Server, p *redistest.Proxy) { p.BlackHole(false) }, 2 * time.Second},
		{"slow", func(_ *redistest.Server, p *redistest.Proxy) { p.Delay(time.Second) }, func(_ *redistest.Server, p *redistest.Proxy) { p.Delay(0) }, 2 * time.Second},
		{"stopped", func(s *redistest.Server, _ *redistest.Proxy) { s.Pause() }, func(s *redistest.Server, _ *redistest.Proxy) { s.Resume() }, time.Second},
		{"killed", func(s *redistest.Server, _ *redistest.Proxy) { s.Kill() }, func(s *redistest.Server, _ *redistest.Proxy) { s.Restart() }, outageTTL + time.Second},
	}
	for _, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr())
			s := serve(t, newClient(t, proxy.Addr()))
			began := time.Now()
			l := s.load(200, 50)
			requireServed(t, l, began.Add(500*time.Millisecond))
			f.begin(server, proxy)
			began = time.Now()
			time.Sleep(4 * time.Second)
			requireToldOnce(t, l, began)
			f.over(server, proxy)
			requireServed(t, l, time.Now().Add(f.back))
			l.stop()
			require.Zero(t, s.overlaps)
			require.Zero(t, s.lapses)
		})
	}
}

// With Sentinel it is over when there is another master.
func TestL23_H17_FailoverUnderLoad(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	s := serve(t, sentinel.Client())
	began := time.Now()
	l := s.load(200, 50)
	requireServed(t, l, began.Add(500*time.Millisecond))
	master := sentinel.Master()
	master.Kill()
	began = time.Now()
	sentinel.AwaitMaster(master)
	requireServed(t, l, time.Now().Add(outageTTL+time.Second))
	all := l.between(began, time.Now())
	for _, a := range all {
		require.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, a.status, a.body)
		require.Less(t, a.took, 3*time.Second)
	}
}

// One that comes and goes is told of as what it is, whenever it is met.
func TestL23_H17_FlappingUnderLoad(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := serve(t, newClient(t, proxy.Addr()))
	l := s.load(200, 50)
	began := time.Now()
	for i := range 10 {
		proxy.Refuse(i%2 == 0)
		proxy.CutAll()
		time.Sleep(time.Duration(200+50*i) * time.Millisecond)
	}
	requireServed(t, l, time.Now())
	all := l.between(began, time.Now().Add(-time.Second))
	for _, a := range all {
		require.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, a.status, a.body)
		require.Less(t, a.took, time.Second)
	}
	require.Greater(t, statuses(all)[http.StatusOK], len(all)/4)
	require.Zero(t, s.overlaps)
}

// A crowd on one key of a Redis that is well is contention, whether it waits or not.
func TestL23_ContentionIsNoOutage(t *testing.T) {
	server := redistest.Start(t)
	for name, wait := range map[string]time.Duration{"no wait": 0, "a short wait": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, newClient(t, server.Addr()), middleware.WithWait(wait))
			l := s.load(1000, 1)
			time.Sleep(2 * time.Second)
			l.stop()
			n := statuses(l.between(time.Time{}, time.Now()))
			require.Positive(t, n[http.StatusTooManyRequests])
			require.Positive(t, n[http.StatusOK])
			require.Len(t, n, 2)
			require.Zero(t, s.overlaps)
		})
	}
}
