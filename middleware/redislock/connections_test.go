package redislock_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// dialled returns a client whose connections dial makes.
func dialled(t *testing.T, poolSize int, dial func(context.Context) (net.Conn, error)) *redis.Client {
	client := redis.NewClient(&redis.Options{
		PoolSize: poolSize,
		Dialer:   func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// The first connection is opened ahead, and takes nobody's place.
func TestCrowdAtTheStart(t *testing.T) {
	for _, poolSize := range []int{1, 2, 10} {
		t.Run(fmt.Sprint("pool of ", poolSize), func(t *testing.T) {
			t.Parallel()
			b := startBackend(t)
			slow.begin(t, b)
			client := redis.NewClient(&redis.Options{Addr: b.line.Addr(), PoolSize: poolSize})
			t.Cleanup(func() { _ = client.Close() })
			seen := new(guardtest.Events)
			crowd(t, open(t, client, redislock.WithObserver(seen.Observe)), 2*poolSize)
			require.Empty(t, seen.All())
		})
	}
}

// Requests that have a body wait for a trip as long as others do.
func TestCrowdOfPosts(t *testing.T) {
	b := startBackend(t)
	client := redis.NewClient(&redis.Options{Addr: b.line.Addr(), PoolSize: 2})
	t.Cleanup(func() { _ = client.Close() })
	s := serve(t, client, answerDone, middleware.WithWait(patience))
	s.post("warm").assertServed(t)
	b.line.Delay(10 * time.Millisecond)
	var all sync.WaitGroup
	for i := range 400 { // one trip at a time, of 20 ms, takes 128 along
		all.Go(func() { s.post(fmt.Sprint(i)).assertServed(t) })
	}
	all.Wait()
	require.Empty(t, s.log.String())
}

// hushed is a connection whose replies stop coming once something is sent on it
// that it is to go quiet with.
type hushed struct {
	net.Conn
	with  func(sent []byte) bool
	quiet atomic.Bool
}

func (c *hushed) Write(b []byte) (int, error) {
	if c.with(b) {
		c.quiet.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *hushed) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.quiet.Load() {
			return n, err // where it is quiet, the deadline
		}
	}
}

// hush returns a client whose connections go quiet with what says so.
func hush(t *testing.T, addr string, poolSize int, with func(sent []byte) bool) *redis.Client {
	return dialled(t, poolSize, func(ctx context.Context) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		return &hushed{Conn: conn, with: with}, err
	})
}

// A connection that goes silent harms those whose trip is made on it, and no
// crowd that waits for others.
func TestOneSilentConnectionIsNoOutage(t *testing.T) {
	b := startBackend(t)
	var armed atomic.Bool
	l := open(t, hush(t, b.line.Addr(), 4, func(sent []byte) bool {
		return len(sent) > 2000 && armed.CompareAndSwap(true, false) // more than one command
	}))
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	b.line.Delay(50 * time.Millisecond)
	armed.Store(true)
	var failed atomic.Int32
	var all sync.WaitGroup
	for i := range 1500 {
		all.Go(func() {
			lease, err := l.Acquire(t.Context(), fmt.Sprint("key", i), lock.Options{Wait: patience})
			if err == nil {
				err = lease.Release(t.Context())
			}
			if err != nil {
				assert.ErrorIs(t, err, lock.ErrUnavailable)
				failed.Add(1)
			}
		})
	}
	all.Wait()
	require.False(t, armed.Load())
	require.Positive(t, failed.Load())
	require.LessOrEqual(t, failed.Load(), int32(128))
}

// wrapped hides what is below, as TLS does: go-redis then can't see that the
// server has closed it.
type wrapped struct{ net.Conn }

func TestStaleConnectionsAreNoOutage(t *testing.T) {
	b := startBackend(t)
	seen := new(guardtest.Events)
	l := open(t, dialled(t, 10, func(context.Context) (net.Conn, error) {
		conn, err := net.Dial("tcp", b.line.Addr())
		return wrapped{conn}, err
	}), redislock.WithObserver(seen.Observe))
	b.line.Delay(5 * time.Millisecond)
	crowd(t, l, 30) // opens them all
	held := acquire(t, l, "held", lock.Options{TTL: longTTL})
	b.line.Delay(0)
	b.line.CutAll()
	for range 6 {
		require.NoError(t, acquire(t, l, "key", lock.Options{}).Release(t.Context()))
	}
	b.line.CutAll()
	found, err := l.Interrupt(t.Context(), "other")
	require.NoError(t, err)
	require.False(t, found)
	require.NoError(t, held.Release(t.Context()))
	require.Empty(t, seen.All())
}

// An interrupt whose connection breaks is repeated, as all that is asked.
func TestInterruptOnACutConnection(t *testing.T) {
	b := startBackend(t)
	seen := new(guardtest.Events)
	l, peer := open(t, dial(t, b.line.Addr()), redislock.WithObserver(seen.Observe)), open(t, b.Client())
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	held := acquire(t, peer, "key", lock.Options{})
	b.line.Delay(30 * time.Millisecond)
	time.AfterFunc(20*time.Millisecond, b.line.CutAll)
	found, err := l.Interrupt(t.Context(), "key")
	require.NoError(t, err)
	require.True(t, found)
	require.Empty(t, seen.All())
	require.NoError(t, held.Release(t.Context()))
}

// Dialling takes nearly as long as it may, and then nothing is answered: no
// caller is told later than within a second, and none that somebody is ahead.
func TestL23_SlowDialToADeadServer(t *testing.T) {
	b := startBackend(t)
	l := open(t, dialled(t, 2, func(ctx context.Context) (net.Conn, error) {
		select {
		case <-time.After(400 * time.Millisecond):
			return net.Dial("tcp", b.line.Addr())
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}))
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	blackHole.begin(t, b)
	var all sync.WaitGroup
	for i := range 400 {
		all.Go(func() {
			start := time.Now()
			_, err := l.Acquire(t.Context(), fmt.Sprint("key", i/3), lock.Options{Wait: time.Duration(i%2) * 3 * time.Second})
			assert.ErrorIs(t, err, lock.ErrUnavailable)
			assert.Less(t, time.Since(start), time.Second)
		})
		pause(5 * time.Millisecond)
	}
	all.Wait()
	blackHole.over(t, b)
}

// Somebody's text in the place of one key's fence is no trouble for the others,
// and none for that key.
func TestForeignFence(t *testing.T) {
	server := redistest.Start(t)
	seen := new(guardtest.Events)
	l := open(t, server.Client(), redislock.WithObserver(seen.Observe))
	require.NoError(t, server.Client().Set(t.Context(), "reqlock:{key}:fence", "text", 0).Err())
	lease := acquire(t, l, "key", lock.Options{})
	require.Positive(t, lease.Fence())
	require.NoError(t, lease.Release(t.Context()))
	require.Empty(t, seen.All())
}

// What the application is asked for when a connection is opened may hang.
func TestL10_CredentialsThatDoNotCome(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	var stuck atomic.Bool
	unstick := make(chan struct{})
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), CredentialsProvider: func() (string, string) {
		if stuck.Load() {
			<-unstick
		}
		return "", ""
	}})
	defer client.Close()
	l := open(t, client)
	held := acquire(t, l, "held", lock.Options{TTL: longTTL})
	stuck.Store(true)
	proxy.CutAll()
	start := time.Now()
	_, err := l.Acquire(t.Context(), "key", lock.Options{})
	requireUnavailable(t, err, time.Since(start))
	start = time.Now()
	err = held.Release(t.Context())
	requireUnavailable(t, err, time.Since(start))
	start = time.Now()
	require.NoError(t, l.Close())
	require.Less(t, time.Since(start), 4*time.Second)
	close(unstick)
}
