package redislock_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// A connection that swallows what it is sent costs who uses it, and nobody else.
func TestABadConnectionIsNoOutage(t *testing.T) {
	server := redistest.Start(t)
	swallow := new(atomic.Bool)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &swallowing{Conn: conn, next: swallow}, err
	}})
	t.Cleanup(func() { _ = client.Close() })
	seen := new(guardtest.Events)
	l := open(t, client, redislock.WithObserver(seen.Observe))
	crowd(t, l, 20)
	var failed, served atomic.Int32
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				lease, err := l.Acquire(t.Context(), fmt.Sprint(i), lock.Options{Wait: time.Second})
				if err != nil {
					failed.Add(1)
					continue
				}
				served.Add(1)
				_ = lease.Release(t.Context())
			}
		})
	}
	pause(200 * time.Millisecond)
	swallow.Store(true)
	all.Wait()
	require.False(t, swallow.Load(), "a connection has begun to swallow")
	require.LessOrEqual(t, failed.Load(), int32(1))
	require.Greater(t, served.Load(), int32(100))
	require.LessOrEqual(t, len(guardtest.Of[lock.BackendFailed](seen)), 1)
}

// Just after an outage, while the server is still probed, probes that fail are no second
// one, where callers have connections that are well.
func TestProbesThatFailAreNoSecondOutage(t *testing.T) {
	b := startBackend(t)
	hang := new(atomic.Bool) // connections that are opened
	client := redis.NewClient(&redis.Options{Addr: b.line.Addr(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		c := &swallowing{Conn: conn, next: new(atomic.Bool)}
		c.mine.Store(hang.Load())
		return c, err
	}})
	t.Cleanup(func() { _ = client.Close() })
	l := open(t, client)
	refused.begin(t, b)
	requireOutage(t, l)
	refused.over(t, b)
	require.Eventually(t, func() bool { return tryFree(t, l) }, patience, time.Millisecond)
	hang.Store(true)
	for start := time.Now(); time.Since(start) < 2*time.Second; {
		require.True(t, tryFree(t, l))
	}
}

// Where nobody can connect any more it is an outage for who has to, although leases are
// renewed on connections that are well.
func TestOnlyNewConnectionsHang(t *testing.T) {
	const ttl = time.Second
	server := redistest.Start(t)
	var mu sync.Mutex
	var all []*swallowing
	renewing := make(map[*swallowing]bool) // those that are opened ahead for that
	hang := new(atomic.Bool)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		c := &swallowing{Conn: conn, next: new(atomic.Bool), text: "\r\nping\r\n"}
		c.mine.Store(hang.Load())
		mu.Lock()
		defer mu.Unlock()
		all = append(all, c)
		c.sent = func() {
			mu.Lock()
			defer mu.Unlock()
			renewing[c] = true
		}
		return c, err
	}})
	t.Cleanup(func() { _ = client.Close() })
	l := open(t, client)
	var held []lock.Lease
	for i := range 10 {
		held = append(held, acquire(t, l, fmt.Sprint("held", i), lock.Options{TTL: ttl}))
	}
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(renewing) == 2 }, patience, time.Millisecond)
	hang.Store(true)
	mu.Lock()
	for _, c := range all {
		if !renewing[c] {
			_ = c.Conn.Close()
		}
	}
	mu.Unlock()
	requireOutage(t, l)
	pause(2 * ttl)
	requireOutageKnown(t, l)
	hang.Store(false)
	require.Eventually(t, func() bool { return tryFree(t, l) }, patience, time.Millisecond)
	for _, lease := range held {
		require.NoError(t, lease.Context().Err())
		require.NoError(t, lease.Release(t.Context()))
	}
}

// Who waits in Redis does not lose its place because somebody else has met a bad
// connection.
func TestABadConnectionLeavesWhoWaits(t *testing.T) {
	server := redistest.Start(t)
	swallow := new(atomic.Bool)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &swallowing{Conn: conn, next: swallow, text: "{another}"}, err
	}})
	t.Cleanup(func() { _ = client.Close() })
	l, peer := open(t, client), open(t, server.Client())
	held := acquire(t, peer, "key", lock.Options{TTL: time.Minute})
	got := make(chan error, 1)
	go func() {
		lease, err := l.Acquire(t.Context(), "key", lock.Options{TTL: time.Minute, Wait: time.Minute})
		if err == nil {
			err = lease.Release(t.Context())
		}
		got <- err
	}()
	requireListens(t, server, "key")
	swallow.Store(true)
	_, err := l.Acquire(t.Context(), "another", lock.Options{})
	require.ErrorIs(t, err, lock.ErrUnavailable)
	require.False(t, swallow.Load())
	require.Eventually(t, func() bool { return tryFree(t, l) }, patience, time.Millisecond)
	select {
	case err := <-got:
		require.Fail(t, "it waits no more", "%v", err)
	default:
	}
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, receive(t, got))
}

// swallowing is a connection that swallows all replies once it has taken its turn, which
// it does when it sends a certain text.
type swallowing struct {
	net.Conn
	next *atomic.Bool
	text string
	sent func() // is told of the text; may be nil
	mine atomic.Bool
}

func (c *swallowing) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(c.text)) {
		if c.sent != nil {
			c.sent()
		}
		if c.next.CompareAndSwap(true, false) {
			c.mine.Store(true)
		}
	}
	return c.Conn.Write(b)
}

func (c *swallowing) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.mine.Load() {
			return n, err
		}
	}
}
