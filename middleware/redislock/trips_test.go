package redislock_test

import (
	"context"
	"fmt"
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

// Callers who ask at once share trips; one at a time makes its own at once.
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
}

// Scripts that are flushed again and again, also in the middle of a trip, are sent
// again, and nothing is done twice.
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
	for range 20 {
		crowd(t, l, 50)
	}
	stop()
	flusher.Wait()
}

// A caller who leaves while it waits for a trip has sent nothing; so has one who
// waits when the Locker is closed.
func TestLeftBeforeTheTrip(t *testing.T) {
	server := redistest.Start(t)
	line := redistest.NewProxy(t, server.Addr())
	l := oneAtATime(t, line.Addr())
	monitor := server.Monitor(t)
	line.Hold(true)
	first, second, third := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	ask := func(ctx context.Context, key string, to chan<- error) {
		_, err := l.Acquire(ctx, key, lock.Options{Wait: patience})
		to <- err
	}
	go ask(t.Context(), "first", first)
	pause(50 * time.Millisecond) // it is under way
	ctx, cancel := context.WithCancel(t.Context())
	go ask(ctx, "second", second)
	go ask(t.Context(), "third", third)
	pause(50 * time.Millisecond)
	cancel()
	require.ErrorIs(t, receive(t, second), context.Canceled)
	go func() { _ = l.Close() }()
	require.ErrorIs(t, receive(t, third), lock.ErrUnavailable)
	line.Hold(false)
	require.ErrorIs(t, receive(t, first), lock.ErrUnavailable)
	pause(50 * time.Millisecond)
	for _, c := range monitor.Stop() {
		require.NotContains(t, strings.Join(c.Args, " "), "{second}")
		require.NotContains(t, strings.Join(c.Args, " "), "{third}")
	}
}

// receive returns what comes.
func receive(t *testing.T, from <-chan error) error {
	t.Helper()
	select {
	case err := <-from:
		return err
	case <-time.After(patience):
		require.Fail(t, "nothing came")
		return nil
	}
}
