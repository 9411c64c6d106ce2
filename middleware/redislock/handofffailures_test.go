package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// A grant whose message is swallowed is found by the question that is due at a
// third of the TTL.
func TestGrantThatIsLost(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	a, b := open(t, server.Client()), open(t, dial(t, proxy.Addr()))
	const ttl = 3 * time.Second
	lease := acquire(t, a, "key", lock.Options{TTL: ttl})
	turn := enqueue(t.Context(), t, server, b, 0, lock.Options{TTL: ttl})
	proxy.Lose("inbox:")
	start := time.Now()
	require.NoError(t, lease.Release(t.Context()))
	next := requireGranted(t, turn, ttl/3+soon)
	assert.Less(t, time.Since(start), ttl/3+time.Second)
	require.NoError(t, next.Release(t.Context()))
}

// Whatever is cut in the moment in which it matters, the waiter is told of its
// turn, long before it would ask by itself.
func TestHandoffThroughCuts(t *testing.T) {
	cuts := []struct {
		name string
		cut  func(*testing.T, backend)
	}{
		{"subscriptions killed", func(t *testing.T, b backend) {
			require.NoError(t, b.Client().Do(t.Context(), "client", "kill", "type", "pubsub").Err())
		}},
		{"clients killed", func(t *testing.T, b backend) { clientsKilled.begin(t, b) }},
		{"connections cut", func(_ *testing.T, b backend) { b.line.CutAll() }},
		{"scripts flushed", func(t *testing.T, b backend) { require.NoError(t, b.Client().ScriptFlush(t.Context()).Err()) }},
	}
	for _, c := range cuts {
		for _, when := range []string{"before the release", "after the release"} {
			t.Run(c.name+" "+when, func(t *testing.T) {
				t.Parallel()
				b := startBackend(t)
				holder, waiter := open(t, b.Client()), open(t, dial(t, b.line.Addr()))
				for range 5 {
					lease := acquire(t, holder, "key", lock.Options{TTL: longTTL})
					turn := enqueue(t.Context(), t, b.Server, waiter, 0, lock.Options{TTL: longTTL})
					if when == "before the release" {
						c.cut(t, b)
					}
					require.NoError(t, lease.Release(t.Context()))
					if when != "before the release" {
						c.cut(t, b)
					}
					require.NoError(t, requireGranted(t, turn, soon).Release(t.Context()))
				}
			})
		}
	}
}

// A waiter that leaves as it is granted costs the next one nothing.
func TestCancelledAsItIsGranted(t *testing.T) {
	server := redistest.Start(t)
	a, b, c := open(t, server.Client()), open(t, server.Client()), open(t, server.Client())
	gone := errors.New("gone")
	for range 50 {
		lease := acquire(t, a, "key", lock.Options{TTL: longTTL, Wait: soon})
		ctx, leave := context.WithCancelCause(t.Context())
		leaver := enqueue(ctx, t, server, b, 0, lock.Options{TTL: longTTL})
		stayer := enqueue(t.Context(), t, server, c, 1, lock.Options{TTL: longTTL})
		go leave(gone)
		require.NoError(t, lease.Release(t.Context()))
		releaseOrGone(t, <-leaver, gone)
		require.NoError(t, requireGranted(t, stayer, soon).Release(t.Context()))
	}
}

// Who finds only that one ahead who leaves as its turn comes is told at once that
// the key is free or not.
func TestTryBehindOneThatLeavesAsItsTurnComes(t *testing.T) {
	server := redistest.Start(t)
	l := open(t, server.Client())
	gone := errors.New("gone")
	for range 30 {
		lease := acquire(t, l, "key", lock.Options{TTL: longTTL, Wait: soon})
		ctx, leave := context.WithCancelCause(t.Context())
		leaver := acquireLater(ctx, l, lock.Options{TTL: longTTL, Wait: time.Minute})
		awaitAhead(t, l, 2)
		ended := make(chan struct{})
		var tries sync.WaitGroup
		for range 8 {
			tries.Go(func() {
				for {
					select {
					case <-ended:
						return
					default:
					}
					lease, err := l.Acquire(t.Context(), "key", lock.Options{TTL: longTTL})
					if err == nil {
						assert.NoError(t, lease.Release(t.Context()))
					} else {
						assert.ErrorIs(t, err, lock.ErrBusy)
					}
				}
			})
		}
		go leave(gone)
		require.NoError(t, lease.Release(t.Context()))
		if g := <-leaver; g.err == nil {
			require.NoError(t, g.lease.Release(t.Context()))
		}
		close(ended)
		tries.Wait()
	}
	requireGone(t, server, "key")
}

// The same inside a process, where the one who releases enters the next.
func TestCancelledAsItIsEntered(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l := open(t, dial(t, proxy.Addr()), redislock.WithHandoff(1))
	gone := errors.New("gone")
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	proxy.Delay(5 * time.Millisecond)
	for i := range 30 {
		lease := acquire(t, l, "key", lock.Options{TTL: longTTL, Wait: soon})
		ctx, leave := context.WithCancelCause(t.Context())
		answers := acquireLater(ctx, l, lock.Options{TTL: longTTL, Wait: time.Minute})
		awaitAhead(t, l, 2)
		time.AfterFunc(time.Duration(i)*500*time.Microsecond, func() { leave(gone) })
		require.NoError(t, lease.Release(t.Context()))
		releaseOrGone(t, <-answers, gone)
		leave(nil)
	}
	requireGone(t, server, "key")
}

// Those who leave at once are gone at once, also over a slow line: as long as
// Redis knows them it may give them a lock that they do not want.
func TestManyLeaveAtOnce(t *testing.T) {
	const n = 500
	server := redistest.Start(t)
	line := redistest.NewProxy(t, server.Addr())
	holder, waiter := open(t, server.Client()), open(t, dial(t, line.Addr()))
	ctx, leave := context.WithCancelCause(t.Context())
	defer leave(nil)
	gone := errors.New("gone")
	var all sync.WaitGroup
	for i := range n {
		key := fmt.Sprint("key", i)
		lease := acquire(t, holder, key, lock.Options{TTL: longTTL})
		defer func() { require.NoError(t, lease.Release(t.Context())) }()
		all.Go(func() {
			_, err := waiter.Acquire(ctx, key, lock.Options{TTL: longTTL, Wait: time.Minute})
			assert.ErrorIs(t, err, gone)
		})
	}
	require.Eventually(t, func() bool { return len(server.Keys("*:queue")) == n }, patience, time.Millisecond)
	line.Delay(30 * time.Millisecond)
	leave(gone)
	all.Wait()
	// One after the other takes n times 60 ms.
	require.Eventually(t, func() bool { return len(server.Keys("*:queue")) == 0 }, soon, time.Millisecond)
}

// A process that is closed takes its callers who wait out of the queue.
func TestClosedProcessLeavesNoGhosts(t *testing.T) {
	server := redistest.Start(t)
	holder, stayer := open(t, server.Client()), open(t, server.Client())
	for range 20 {
		leaver := open(t, server.Client())
		lease := acquire(t, holder, "key", lock.Options{TTL: longTTL})
		turns := []<-chan grant{enqueue(t.Context(), t, server, leaver, 0, lock.Options{TTL: longTTL})}
		for range 50 {
			turn := acquireLater(t.Context(), leaver, lock.Options{TTL: longTTL, Wait: time.Minute})
			turns = append(turns, turn)
		}
		next := enqueue(t.Context(), t, server, stayer, 1, lock.Options{TTL: longTTL})
		require.NoError(t, leaver.Close())
		require.EqualValues(t, 1, server.Client().ZCard(t.Context(), "reqlock:{key}:queue").Val())
		for _, turn := range turns {
			require.ErrorIs(t, (<-turn).err, lock.ErrUnavailable)
		}
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, requireGranted(t, next, soon).Release(t.Context()))
	}
}

// L16: however the release and the subscription of the waiter meet, it hears of
// its turn.
func TestL16_ReleasedAsTheWaiterSubscribes(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.Delay(3 * time.Millisecond)
	holder := open(t, server.Client())
	for i := range 30 {
		waiter := open(t, dial(t, proxy.Addr())) // has not subscribed yet
		require.NoError(t, acquire(t, waiter, "warm", lock.Options{}).Release(t.Context()))
		lease := acquire(t, holder, "key", lock.Options{TTL: longTTL, Wait: soon})
		turn := acquireLater(t.Context(), waiter, lock.Options{TTL: longTTL, Wait: time.Minute})
		release := time.NewTimer(time.Duration(i) * time.Millisecond)
		<-release.C
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, requireGranted(t, turn, soon).Release(t.Context()))
		require.NoError(t, waiter.Close())
	}
}

// Processes that stop or die as it is their turn, at the moment in which the
// lock is theirs and they do not know.
func TestWaiterThatDoesNotStart(t *testing.T) {
	for _, killed := range []bool{false, true} {
		name := map[bool]string{false: "stopped", true: "killed"}[killed]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const ttl = 2 * time.Second
			server := redistest.Start(t)
			l := open(t, server.Client())
			waiter, third := startPod(t, server, ttl), open(t, server.Client())
			lease := acquire(t, l, "key", lock.Options{TTL: ttl})
			answered := waiter.post(t.Context(), "key", 0)
			awaitQueue(t, server, 1)
			waiter.Pause()
			turn := enqueue(t.Context(), t, server, third, 1, lock.Options{TTL: ttl})
			require.NoError(t, lease.Release(t.Context()))
			granted := time.Now()
			require.EqualValues(t, 1, server.Client().Exists(t.Context(), lockKey("key")).Val(), "the waiter's that is stopped")
			if killed {
				waiter.Kill()
			}
			next := requireGranted(t, turn, ttl+patience)
			assert.Less(t, time.Since(granted), ttl+time.Second)
			assert.Greater(t, next.Fence(), lease.Fence()+1)
			if killed {
				require.NoError(t, next.Release(t.Context()))
				return
			}
			// It wakes with an old message in its inbox, and has to wait.
			waiter.Resume()
			awaitQueue(t, server, 1)
			require.NoError(t, context.Cause(next.Context()))
			require.NoError(t, next.Release(t.Context()))
			fence, store := fields(t, waiter.WaitFor("start "))
			require.Equal(t, "accepted", store)
			require.Greater(t, fence, next.Fence())
			require.Equal(t, http.StatusOK, (<-answered).status)
		})
	}
}

// A waiter that is killed while it waits is passed over at once.
func TestL19_KilledWaiterIsPassedOver(t *testing.T) {
	server := redistest.Start(t)
	l, third := open(t, server.Client()), open(t, server.Client())
	pod := startPod(t, server, longTTL)
	lease := acquire(t, l, "key", lock.Options{TTL: longTTL})
	pod.post(t.Context(), "key", 0)
	awaitQueue(t, server, 1)
	turn := enqueue(t.Context(), t, server, third, 1, lock.Options{TTL: longTTL})
	pod.Kill()
	require.Eventually(t, func() bool {
		clients, err := server.Client().Do(t.Context(), "client", "list", "type", "pubsub").Text()
		return err == nil && len(splitLines(clients)) == 1
	}, patience, time.Millisecond)
	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, requireGranted(t, turn, soon).Release(t.Context()))
}

// A server that comes back may have forgotten a holder, so that nobody is
// served before every lease of before has run out or its holder knows.
func TestRestartWhileHeldAndWaitedFor(t *testing.T) {
	for _, config := range []string{"appendonly no", "appendonly yes"} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			const ttl = 2 * time.Second
			server := redistest.Start(t, config)
			a, b := open(t, dial(t, server.Addr())), open(t, dial(t, server.Addr()))
			lease := acquire(t, a, "key", lock.Options{TTL: ttl})
			other := acquire(t, b, "other", lock.Options{TTL: ttl})
			awaitLooks(t, server, 2)
			server.Restart()
			restarted := time.Now()
			if config == "appendonly yes" { // both go on
				time.AfterFunc(2*ttl, func() { assert.NoError(t, lease.Release(t.Context())) })
			}
			next := grant{}
			for next.lease == nil && time.Since(restarted) < patience {
				next.lease, next.err = b.Acquire(t.Context(), "key", lock.Options{TTL: ttl, Wait: time.Minute})
				next.at = time.Now()
				if next.err != nil {
					require.ErrorIs(t, next.err, lock.ErrUnavailable)
				}
			}
			require.NoError(t, next.err)
			require.Error(t, context.Cause(lease.Context()), "two hold the key")
			require.Greater(t, next.lease.Fence(), lease.Fence())
			require.NoError(t, next.lease.Release(t.Context()))
			if config == "appendonly no" {
				require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrExpired)
				assert.Less(t, next.at.Sub(restarted), ttl+time.Second)
				require.ErrorIs(t, awaitEnd(t, other), lock.ErrExpired)
			} else {
				require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrReleased)
				require.NoError(t, other.Release(t.Context()))
			}
		})
	}
}

// A grant that comes after a newer "not yet" is one of before: the lease that it
// brings may long have run out.
func TestOldGrantIsNone(t *testing.T) {
	server := redistest.Start(t)
	a, b := open(t, server.Client()), open(t, server.Client())
	lease := acquire(t, a, "key", lock.Options{TTL: longTTL})
	turn := enqueue(t.Context(), t, server, b, 0, lock.Options{TTL: longTTL})
	for token, entry := range server.Client().HGetAll(t.Context(), "reqlock:{key}:entries").Val() {
		_, inbox, _ := strings.Cut(entry, " ")
		_, inbox, _ = strings.Cut(inbox, " ")
		for _, message := range []string{
			fmt.Sprint(token, " ", lease.Fence()), fmt.Sprint(token, " ", lease.Fence()-1), // too old
			fmt.Sprint("stranger ", lease.Fence()+1e9), token, token + " x", "", // nonsense
		} {
			require.EqualValues(t, 1, server.Client().Publish(t.Context(), inbox, message).Val())
		}
	}
	select {
	case g := <-turn:
		require.Fail(t, "granted", "%+v", g)
	case <-time.After(200 * time.Millisecond):
	}
	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, requireGranted(t, turn, soon).Release(t.Context()))
}

// Nobody holds the key after a restart, so nobody is busy; a key that is held
// after it is.
func TestL23_KeptBackAfterARestart(t *testing.T) {
	server := redistest.Start(t)
	l, other := open(t, dial(t, server.Addr())), open(t, dial(t, server.Addr()))
	const ttl = 2 * time.Second
	require.NoError(t, acquire(t, l, "key", lock.Options{TTL: ttl}).Release(t.Context()))
	awaitLooks(t, server, 2)
	server.Restart()
	start := time.Now()
	_, err := l.Acquire(t.Context(), "key", lock.Options{TTL: ttl, Wait: 100 * time.Millisecond})
	requireUnavailable(t, err, time.Since(start))
	// Started since, it does not know.
	fresh := open(t, server.Client())
	held := acquire(t, fresh, "held", lock.Options{TTL: ttl})
	_, err = other.Acquire(t.Context(), "held", lock.Options{TTL: ttl, Wait: 10 * time.Millisecond})
	require.ErrorIs(t, err, lock.ErrBusy)
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, acquire(t, l, "key", lock.Options{TTL: ttl, Wait: patience}).Release(t.Context()))
}

// awaitLooks waits until n processes know which server this is, which a restart
// in their first milliseconds would spare them.
func awaitLooks(t *testing.T, server *redistest.Server, n int64) {
	t.Helper()
	require.Eventually(t, func() bool { return server.Commands("info")["info"] >= n }, patience, time.Millisecond)
	pause(50 * time.Millisecond) // for the reply
}
