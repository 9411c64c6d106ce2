package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// soon is when a waiter is served that is told of its turn, on a busy machine:
// a small part of what it takes to find out by asking, with longTTL.
const soon = 2 * time.Second

// A grant is what an Acquire in the background returned, and when.
type grant struct {
	lease lock.Lease
	err   error
	at    time.Time
}

// acquireLater acquires "key" in the background.
func acquireLater(ctx context.Context, l *redislock.Locker, o lock.Options) <-chan grant {
	return acquireKeyLater(ctx, l, "key", o)
}

func acquireKeyLater(ctx context.Context, l *redislock.Locker, key string, o lock.Options) <-chan grant {
	grants := make(chan grant, 1)
	go func() {
		lease, err := l.Acquire(ctx, key, o)
		grants <- grant{lease, err, time.Now()}
	}()
	return grants
}

// releaseOrGone is for a caller that left as it was granted: it has a lease, or it
// is gone.
func releaseOrGone(t *testing.T, g grant, gone error) {
	t.Helper()
	if g.err == nil {
		require.NoError(t, g.lease.Release(t.Context()))
	} else {
		require.ErrorIs(t, g.err, gone)
	}
}

// enqueue has l wait for "key", behind n others in Redis, and returns once Redis
// knows.
func enqueue(ctx context.Context, t *testing.T, server *redistest.Server, l *redislock.Locker, n int, o lock.Options) <-chan grant {
	t.Helper()
	if o.Wait == 0 {
		o.Wait = time.Minute
	}
	grants := acquireLater(ctx, l, o)
	awaitQueue(t, server, n+1)
	return grants
}

// awaitQueue waits until n callers wait for "key" in Redis, and will hear of
// their turn.
func awaitQueue(t *testing.T, server *redistest.Server, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return waiting(t, server) == n }, patience, time.Millisecond)
}

func waiting(t *testing.T, server *redistest.Server) (n int) {
	for _, entry := range server.Client().HVals(t.Context(), "reqlock:{key}:entries").Val() {
		if strings.Contains(entry, "inbox:") {
			n++
		}
	}
	return n
}

// requireGranted waits for a lease, for d at most.
func requireGranted(t *testing.T, grants <-chan grant, d time.Duration) lock.Lease {
	t.Helper()
	select {
	case g := <-grants:
		require.NoError(t, g.err)
		require.NoError(t, context.Cause(g.lease.Context()))
		return g.lease
	case <-time.After(d):
		require.Fail(t, "not served", "within %v", d)
		return nil
	}
}

// The release of one process is the start of the next: nobody asks in between.
func TestHandoff(t *testing.T) {
	server := redistest.Start(t)
	a, b := open(t, server.Client()), open(t, server.Client())
	lease := acquire(t, a, "key", lock.Options{TTL: longTTL})
	turn := enqueue(t.Context(), t, server, b, 0, lock.Options{TTL: longTTL})
	monitor := server.Monitor(t)
	require.NoError(t, lease.Release(t.Context()))
	next := requireGranted(t, turn, soon)
	require.Greater(t, next.Fence(), lease.Fence())
	require.NoError(t, next.Release(t.Context()))
	calls := monitor.Stop()
	require.Len(t, calls.TopLevel().Named("eval", "evalsha"), 2, "two releases")
	require.Len(t, calls.InScripts().Named("publish"), 1)
	require.Empty(t, server.Keys("*:queue"))
	require.Empty(t, server.Keys("*:entries"))
}

func TestNobodyWaitsNothingIsPublished(t *testing.T) {
	server := redistest.Start(t)
	l := open(t, server.Client())
	monitor := server.Monitor(t)
	require.NoError(t, acquire(t, l, "key", lock.Options{Wait: time.Second}).Release(t.Context()))
	calls := monitor.Stop()
	require.Empty(t, calls.Named("publish", "subscribe"), calls)
	require.Len(t, calls.TopLevel().Named("evalsha", "eval"), 2)
}

// In one process the lock goes on to the next caller with the release itself.
func TestHandoffInsideAProcess(t *testing.T) {
	server := redistest.Start(t)
	l := open(t, server.Client(), redislock.WithHandoff(1))
	const n = 50
	lease := acquire(t, l, "key", lock.Options{TTL: longTTL})
	var turns []<-chan grant
	for i := range n {
		turns = append(turns, enqueueLocally(t, l, i))
	}
	monitor := server.Monitor(t)
	for _, turn := range turns {
		require.NoError(t, lease.Release(t.Context()))
		next := requireGranted(t, turn, soon)
		require.Greater(t, next.Fence(), lease.Fence())
		lease = next
	}
	require.NoError(t, lease.Release(t.Context()))
	calls := monitor.Stop()
	require.Len(t, calls.TopLevel().Named("eval", "evalsha"), n+1, "a command each")
	require.Empty(t, calls.Named("publish", "subscribe"))
}

// enqueueLocally has l wait for "key", which it holds, behind n others.
func enqueueLocally(t *testing.T, l *redislock.Locker, n int) <-chan grant {
	t.Helper()
	grants := acquireLater(t.Context(), l, lock.Options{TTL: longTTL, Wait: time.Minute, MaxQueue: 1000})
	awaitAhead(t, l, n+2)
	return grants
}

// awaitAhead waits until n callers of l hold "key" or wait for it.
func awaitAhead(t *testing.T, l *redislock.Locker, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := l.Acquire(t.Context(), "key", lock.Options{})
		busy, ok := errors.AsType[*lock.BusyError](err)
		return ok && busy.Ahead == n
	}, patience, time.Millisecond)
}

// The order of arrival holds across processes, whoever of them has the lock and
// whichever of them hear of each other.
func TestOrderOfArrivalAcrossProcesses(t *testing.T) {
	server := redistest.Start(t)
	var lockers []*redislock.Locker
	for range 3 {
		lockers = append(lockers, open(t, server.Client(), redislock.WithHandoff(1)))
	}
	first := acquire(t, lockers[0], "key", lock.Options{TTL: longTTL})
	const n = 300
	var mu sync.Mutex
	var served []int
	var all sync.WaitGroup
	apart := time.NewTicker(15 * time.Millisecond) // much more than a question takes
	defer apart.Stop()
	for i := range n {
		l := lockers[(i*i+i/7)%len(lockers)]
		<-apart.C
		all.Go(func() {
			lease, err := l.Acquire(t.Context(), "key", lock.Options{TTL: longTTL, Wait: time.Minute, MaxQueue: n})
			if !assert.NoError(t, err) {
				return
			}
			mu.Lock()
			served = append(served, i)
			mu.Unlock()
			assert.NoError(t, lease.Release(t.Context()))
		})
	}
	<-apart.C
	require.NoError(t, first.Release(t.Context()))
	all.Wait()
	for i := range served {
		require.Equal(t, i, served[i], "%v", served)
	}
	require.Len(t, served, n)
}

// A yes or no neither overtakes who waits in another process nor joins them.
func TestTryNeitherOvertakesNorQueues(t *testing.T) {
	server := redistest.Start(t)
	a, b, c := open(t, server.Client()), open(t, server.Client()), open(t, server.Client())
	lease := acquire(t, a, "key", lock.Options{TTL: longTTL})
	for range 20 {
		turn := enqueue(t.Context(), t, server, b, 0, lock.Options{TTL: longTTL})
		_, err := c.Acquire(t.Context(), "key", lock.Options{TTL: longTTL})
		require.ErrorIs(t, err, lock.ErrBusy)
		require.Equal(t, 1, waiting(t, server))
		// Freed behind everybody's back: the try finds it free, and is not served.
		require.NoError(t, server.Client().Del(t.Context(), lockKey("key")).Err())
		_, err = c.Acquire(t.Context(), "key", lock.Options{TTL: longTTL})
		require.ErrorIs(t, err, lock.ErrBusy)
		next := requireGranted(t, turn, soon)
		_ = lease.Release(t.Context())
		require.NoError(t, context.Cause(next.Context()))
		lease = next
		a, b = b, a
	}
	require.NoError(t, lease.Release(t.Context()))
}

// The queue in Redis has as many places as a caller allows, counted there, and
// who is in it stays in it.
func TestQueueFullAcrossProcesses(t *testing.T) {
	server := redistest.Start(t)
	lockers := make([]*redislock.Locker, 5)
	for i := range lockers {
		lockers[i] = open(t, server.Client())
	}
	lease := acquire(t, lockers[0], "key", lock.Options{TTL: time.Second})
	var turns []<-chan grant
	for i := range 3 {
		turns = append(turns, enqueue(t.Context(), t, server, lockers[1+i], i, lock.Options{TTL: time.Second, MaxQueue: 3}))
	}
	start := time.Now()
	_, err := lockers[4].Acquire(t.Context(), "key", lock.Options{Wait: time.Minute, MaxQueue: 3})
	require.ErrorIs(t, err, lock.ErrQueueFull)
	require.Less(t, time.Since(start), time.Second)
	busy, _ := errors.AsType[*lock.BusyError](err)
	require.Equal(t, 4, busy.Ahead)
	require.EqualValues(t, 3, server.Client().ZCard(t.Context(), "reqlock:{key}:queue").Val())
	monitor := server.Monitor(t) // they ask again, and are not told that it is full
	require.Eventually(t, func() bool {
		n := 0
		for _, c := range monitor.Calls().TopLevel().Named("evalsha") {
			if isAcquire(c) {
				n++
			}
		}
		return n >= 6
	}, patience, 10*time.Millisecond)
	for _, turn := range turns {
		require.NoError(t, lease.Release(t.Context()))
		lease = requireGranted(t, turn, soon)
	}
	require.NoError(t, lease.Release(t.Context()))
}

// A place goes by when its caller came, however long later questions take.
func TestPlaceStays(t *testing.T) {
	server := redistest.Start(t)
	line := redistest.NewProxy(t, server.Addr())
	holder, waiter := open(t, server.Client()), open(t, dial(t, line.Addr()))
	lease := acquire(t, holder, "key", lock.Options{TTL: longTTL})
	turn := enqueue(t.Context(), t, server, waiter, 0, lock.Options{TTL: time.Second})
	ticket := func() float64 {
		queue := server.Client().ZRangeWithScores(t.Context(), "reqlock:{key}:queue", 0, -1).Val()
		require.Len(t, queue, 1)
		return queue[0].Score
	}
	before := ticket()
	line.Delay(50 * time.Millisecond)
	monitor := server.Monitor(t)
	require.Eventually(t, func() bool { return len(monitor.Calls().InScripts().Named("zrank")) > 0 }, patience, time.Millisecond)
	require.LessOrEqual(t, ticket(), before)
	line.Delay(0)
	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, requireGranted(t, turn, soon).Release(t.Context()))
}

// L17: one connection hears of all grants, however many keys are waited for.
func TestL17_OneSubscriptionPerProcess(t *testing.T) {
	server := redistest.Start(t)
	a, b := open(t, server.Client()), open(t, server.Client())
	var all sync.WaitGroup
	var leases []lock.Lease
	for i := range 50 {
		key := fmt.Sprint("key", i)
		leases = append(leases, acquire(t, a, key, lock.Options{TTL: longTTL}))
		all.Go(func() {
			lease, err := b.Acquire(t.Context(), key, lock.Options{TTL: longTTL, Wait: time.Minute})
			if assert.NoError(t, err) {
				assert.NoError(t, lease.Release(t.Context()))
			}
		})
	}
	require.Eventually(t, func() bool { return len(server.Keys("*:queue")) == 50 }, patience, time.Millisecond)
	subscribed, err := server.Client().Do(t.Context(), "client", "list", "type", "pubsub").Text()
	require.NoError(t, err)
	require.Len(t, splitLines(subscribed), 1, subscribed)
	for _, lease := range leases {
		require.NoError(t, lease.Release(t.Context()))
	}
	all.Wait()
}

// L19: who leaves takes its place along, whether it is known to Redis or not.
func TestL19_LeaversLeaveNoGhosts(t *testing.T) {
	server := redistest.Start(t)
	a, b, c := open(t, server.Client()), open(t, server.Client()), open(t, server.Client())
	lease := acquire(t, a, "key", lock.Options{TTL: longTTL})
	gone := errors.New("gone")
	for range 20 {
		ctx, leave := context.WithCancelCause(t.Context())
		leaver := enqueue(ctx, t, server, b, 0, lock.Options{TTL: longTTL})
		stayer := enqueue(t.Context(), t, server, c, 1, lock.Options{TTL: longTTL})
		leave(gone)
		require.ErrorIs(t, (<-leaver).err, gone)
		awaitQueue(t, server, 1)
		require.NoError(t, lease.Release(t.Context()))
		lease = requireGranted(t, stayer, soon)
		a, c = c, a
	}
	require.NoError(t, lease.Release(t.Context()))
	require.Empty(t, server.Keys("*:entries"))
}
