package httplock_test

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// What there is of a process.
type usage struct {
	goroutines  int
	heap        uint64 // bytes
	connections int64
}

// connections counts those that a client has open.
type connections struct{ open atomic.Int64 }

func (c *connections) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &counted{Conn: conn, of: c}, nil
}

type counted struct {
	net.Conn
	of     *connections
	closed atomic.Bool
}

func (c *counted) Close() error {
	if !c.closed.Swap(true) {
		c.of.open.Add(-1)
	}
	return c.Conn.Close()
}

func (c *connections) usage() usage {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{runtime.NumGoroutine(), m.HeapAlloc, c.open.Load()}
}

// Half a minute without Redis, under load: each fallback does what it promises, nothing
// grows meanwhile, and with the one that stands in for Redis no two handlers of a key
// run at once, neither in the outage nor when it begins or ends.
func TestFallbacksInALongOutage(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	open := new(connections)
	client := func() *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: proxy.Addr(), PoolSize: 20, Dialer: open.dial})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	none := serve(t, client())
	local := serve(t, client(), middleware.WithFallback(memlock.New()))
	anyway := serve(t, client(), middleware.WithFallback(lock.Open))
	services := map[string]*service{"none": none, "local": local, "open": anyway}
	const keys = 3 // so that some wait
	loads := make(map[string]*load)
	began := time.Now()
	for name, s := range services {
		loads[name] = s.load(60, keys)
	}
	for _, l := range loads {
		requireServed(t, l, began.Add(time.Second))
	}

	proxy.BlackHole(true)
	outage := time.Now()
	time.Sleep(10 * time.Second)
	early := open.usage()
	time.Sleep(5 * time.Second)
	proxy.Refuse(true)
	proxy.CutAll()
	time.Sleep(5 * time.Second)
	proxy.Refuse(false) // and swallows again
	time.Sleep(10 * time.Second)
	late := open.usage()
	t.Logf("after 10 s: %+v, after 30 s: %+v", early, late)
	require.LessOrEqual(t, late.goroutines, early.goroutines+20)
	require.LessOrEqual(t, late.heap, early.heap+4<<20)
	require.LessOrEqual(t, late.connections, int64(3*(20+9)))
	requireToldOnce(t, loads["none"], outage)
	proxy.BlackHole(false)
	over := time.Now()
	for _, l := range loads {
		requireServed(t, l, over.Add(2*time.Second))
	}
	for name, l := range loads {
		l.stop()
		all := l.between(outage, over)
		require.Less(t, percentile(all, 100), 4*time.Second, name) // a second, and the wait for others
		if name == "none" {
			continue
		}
		require.Equal(t, map[int]int{http.StatusOK: len(all)}, statuses(all), name)
		settled := l.between(outage.Add(4*time.Second), over)
		t.Logf("%s: %d requests, later ones median %v, 99 %% %v", name, len(all), percentile(settled, 50), percentile(settled, 99))
		require.Less(t, percentile(settled, 50), 25*time.Millisecond, name)
	}
	require.Zero(t, none.overlaps)
	require.Zero(t, local.overlaps)
	require.Zero(t, local.unfenced)
	require.Zero(t, local.lapses)
	require.Greater(t, anyway.unfenced, 1000)
}

// A handler that still runs when Redis goes, or when it is back, is waited for.
func TestSwitchingWaitsForWhoRuns(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := serve(t, newClient(t, proxy.Addr()), middleware.WithFallback(memlock.New()), middleware.WithWait(10*time.Second), middleware.WithTTL(10*time.Second))
	started, finish := make(chan struct{}, 3), make(chan struct{})
	t.Cleanup(func() { close(finish) })
	s.work = func(key string) {
		if key == "/key" {
			started <- struct{}{}
			<-finish
		}
	}
	done := make(chan int, 3)
	post := func() { go func() { done <- s.post(http.DefaultClient, "key").status }() }
	post()
	<-started
	wait := lock.Options{TTL: 10 * time.Second, Wait: 10 * time.Second}
	_, err := s.locks.Acquire(t.Context(), "line", wait)
	require.NoError(t, err)
	proxy.Refuse(true)
	proxy.CutAll()
	require.Equal(t, http.StatusOK, s.post(http.DefaultClient, "another").status) // notices
	// Once lines are told as well, the lease of the first one is not passed on.
	_, err = s.locks.Acquire(t.Context(), "line", wait)
	require.ErrorIs(t, err, lock.ErrUnavailable)
	post()
	for range 3 {
		require.Equal(t, http.StatusOK, s.post(http.DefaultClient, "another").status)
	}
	require.Empty(t, started, "the second one started beside the first")
	finish <- struct{}{}
	require.Equal(t, http.StatusOK, <-done)
	<-started
	proxy.Refuse(false)
	require.Eventually(t, func() bool { return len(server.Keys("reqlock:{/key}:lock")) == 0 }, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { // until Redis is asked again
		s.post(http.DefaultClient, "another")
		return len(server.Keys("reqlock:{/another}:fence")) == 1
	}, 10*time.Second, time.Millisecond)
	post()
	require.Eventually(t, func() bool { return len(server.Keys("reqlock:{/key}:lock")) == 1 }, 10*time.Second, time.Millisecond, "third")
	for range 3 {
		require.Equal(t, http.StatusOK, s.post(http.DefaultClient, "another").status)
	}
	require.Empty(t, started, "the third one started beside the second")
	for range 2 {
		finish <- struct{}{}
		require.Equal(t, http.StatusOK, <-done)
	}
	require.Zero(t, s.overlaps)
	require.Zero(t, s.lapses)
	http.DefaultClient.CloseIdleConnections()
}
