package redislock_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// oneAtATime opens a Locker that makes one trip after the other: all callers who
// come in the meantime share the next one.
func oneAtATime(t *testing.T, addr string) *redislock.Locker {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1})
	t.Cleanup(func() { _ = client.Close() })
	l := open(t, client)
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	return l
}

// Callers who ask at once share trips.
func TestManyShareTrips(t *testing.T) {
	const callers = 200
	server := redistest.Start(t)
	line := redistest.NewProxy(t, server.Addr())
	l := oneAtATime(t, line.Addr())
	line.Delay(20 * time.Millisecond)
	sent, read := server.Commands("evalsha")["evalsha"], reads(t, server)
	crowd(t, l, callers)
	sent, read = server.Commands("evalsha")["evalsha"]-sent, reads(t, server)-read
	require.EqualValues(t, 2*callers, sent)
	require.Less(t, read, sent/5)
}

// What the server refuses to do for one key is no business of those who share
// the trip.
func TestRefusedAmongOthers(t *testing.T) {
	server := redistest.Start(t)
	line := redistest.NewProxy(t, server.Addr())
	l := oneAtATime(t, line.Addr())
	require.NoError(t, server.Client().HSet(t.Context(), lockKey("key7"), "a", "b").Err())
	line.Delay(20 * time.Millisecond)
	sent, read := server.Commands("evalsha")["evalsha"], reads(t, server)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			lease, err := l.Acquire(t.Context(), fmt.Sprint("key", i), lock.Options{Wait: patience})
			if i == 7 {
				assert.ErrorIs(t, err, lock.ErrUnavailable)
				assert.ErrorContains(t, err, "WRONGTYPE")
			} else if assert.NoError(t, err) {
				assert.NoError(t, lease.Release(t.Context()))
			}
		})
	}
	all.Wait()
	sent, read = server.Commands("evalsha")["evalsha"]-sent, reads(t, server)-read
	require.Less(t, read, sent/2, "they have shared trips")
}

// Scripts that are flushed again and again, also in the middle of a trip, are sent
// again, and each caller gets its lock and gives it back.
func TestScriptsFlushedAllTheTime(t *testing.T) {
	server := redistest.Start(t)
	l := oneAtATime(t, server.Addr())
	flushing, stop := context.WithCancel(t.Context())
	var flusher sync.WaitGroup
	flusher.Go(func() {
		for flushing.Err() == nil {
			assert.NoError(t, server.Client().ScriptFlush(t.Context()).Err())
		}
	})
	before := server.Commands("eval")["eval"]
	for range 20 {
		crowd(t, l, 50)
	}
	stop()
	flusher.Wait()
	require.Greater(t, server.Commands("eval")["eval"]-before, int64(20))
}

// A caller who leaves while it waits for a trip has sent nothing; so has one who
// waits when the Locker is closed.
func TestLeftBeforeTheTrip(t *testing.T) {
	server := redistest.Start(t)
	line := redistest.NewProxy(t, server.Addr())
	writes := make(chan struct{}, 100)
	l := open(t, dialled(t, 1, func(ctx context.Context) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", line.Addr())
		return noting{conn, writes}, err
	}))
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	monitor := server.Monitor(t)
	line.Hold(true)
	for len(writes) > 0 {
		<-writes
	}
	first, second, third, closed := make(chan error, 1), make(chan error, 1), make(chan error, 1), make(chan error, 1)
	ask := func(ctx context.Context, key string, to chan<- error) {
		_, err := l.Acquire(ctx, key, lock.Options{Wait: patience})
		to <- err
	}
	go ask(t.Context(), "first", first)
	<-writes // it is under way
	ctx, cancel := context.WithCancel(t.Context())
	go ask(ctx, "second", second)
	go ask(t.Context(), "third", third)
	pause(50 * time.Millisecond) // most often they wait by then
	cancel()
	require.ErrorIs(t, receive(t, second), context.Canceled)
	go func() { closed <- l.Close() }()
	require.ErrorIs(t, receive(t, third), lock.ErrUnavailable)
	line.Hold(false)
	require.ErrorIs(t, receive(t, first), lock.ErrUnavailable)
	require.NoError(t, receive(t, closed))
	for _, c := range monitor.Stop() {
		require.NotContains(t, strings.Join(c.Args, " "), "{second}")
		require.NotContains(t, strings.Join(c.Args, " "), "{third}")
	}
}

// noting is a connection that tells of each write.
type noting struct {
	net.Conn
	writes chan<- struct{}
}

func (c noting) Write(b []byte) (int, error) {
	select {
	case c.writes <- struct{}{}:
	default:
	}
	return c.Conn.Write(b)
}
