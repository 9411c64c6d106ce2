package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// relay gives the lease back, and each of those that follow, and returns the
// fences.
func relay(t *testing.T, lease lock.Lease, turns []<-chan grant) []uint64 {
	t.Helper()
	fences := []uint64{lease.Fence()}
	for _, turn := range turns {
		require.NoError(t, lease.Release(t.Context()))
		lease = requireGranted(t, turn, soon)
		fences = append(fences, lease.Fence())
	}
	require.NoError(t, lease.Release(t.Context()))
	return fences
}

// tenures splits rising fences where one is not the next after the one before:
// those of one tenure follow on each other.
func tenures(t *testing.T, fences []uint64) (lengths []int) {
	t.Helper()
	for i, f := range fences {
		switch {
		case i > 0 && f == fences[i-1]+1:
			lengths[len(lengths)-1]++
			continue
		case i > 0:
			require.Greater(t, f, fences[i-1])
		}
		lengths = append(lengths, 1)
	}
	return lengths
}

// Inside a process the lease is passed on, a few times for each of two commands.
func TestPassedOnInsideAProcess(t *testing.T) {
	const n, most = 100, 5
	server := redistest.Start(t)
	l := open(t, server.Client(), redislock.WithHandoff(most))
	lease := acquire(t, l, "key", lock.Options{TTL: longTTL})
	var turns []<-chan grant
	for i := range n {
		turns = append(turns, enqueueLocally(t, l, i))
	}
	pause(50 * time.Millisecond) // the first tenure is over when it is first released
	monitor := server.Monitor(t)
	lengths := tenures(t, relay(t, lease, turns))
	calls := monitor.Stop()
	require.Len(t, calls.TopLevel(), len(lengths), "one for each tenure")
	require.Equal(t, 1, lengths[0], "which was too long for another")
	passed := 0
	for _, length := range lengths {
		require.LessOrEqual(t, length, most)
		passed += length - 1
	}
	t.Logf("%d of %d passed on", passed, n)
	require.Positive(t, passed)
	requireGone(t, server, "key")
}

// Who wants another TTL is asked for anew: it is not what Redis has.
func TestAnotherTTLIsNotPassedOn(t *testing.T) {
	server := redistest.Start(t)
	l := open(t, server.Client())
	lease := acquire(t, l, "key", lock.Options{TTL: longTTL})
	turn := acquireLater(t.Context(), l, lock.Options{TTL: 2 * longTTL, Wait: time.Minute})
	awaitAhead(t, l, 2)
	require.NoError(t, lease.Release(t.Context()))
	next := requireGranted(t, turn, soon)
	require.Greater(t, server.Client().PTTL(t.Context(), lockKey("key")).Val(), longTTL)
	require.NoError(t, next.Release(t.Context()))
}

// Who leaves as the lease is passed on to it gives it up.
func TestCancelledAsItIsPassedOn(t *testing.T) {
	server := redistest.Start(t)
	l := open(t, server.Client())
	gone := errors.New("gone")
	for range 100 {
		lease := acquire(t, l, "key", lock.Options{TTL: longTTL, Wait: soon})
		ctx, leave := context.WithCancelCause(t.Context())
		leaver := acquireLater(ctx, l, lock.Options{TTL: longTTL, Wait: time.Minute})
		awaitAhead(t, l, 2)
		stayer := enqueueLocally(t, l, 1)
		go leave(gone)
		require.NoError(t, lease.Release(t.Context()))
		releaseOrGone(t, <-leaver, gone)
		require.NoError(t, requireGranted(t, stayer, soon).Release(t.Context()))
	}
	requireGone(t, server, "key")
}

// An interrupt is for who held the key then, and not for who has its token since.
func TestInterruptAndPass(t *testing.T) {
	const ttl = 600 * time.Millisecond
	server := redistest.Start(t)
	l, peer := open(t, server.Client()), open(t, server.Client())
	require.NoError(t, acquire(t, peer, "warm", lock.Options{}).Release(t.Context()))
	passed := 0
	for range 5 {
		lease := acquire(t, l, "key", lock.Options{TTL: ttl})
		turn := acquireLater(t.Context(), l, lock.Options{TTL: ttl, Wait: time.Minute})
		awaitAhead(t, l, 2)
		found, err := peer.Interrupt(t.Context(), "key")
		require.NoError(t, err)
		require.True(t, found)
		require.NoError(t, lease.Release(t.Context()))
		next := requireGranted(t, turn, soon)
		if next.Fence() == lease.Fence()+1 {
			passed++
		}
		select {
		case <-next.Context().Done():
			require.Fail(t, "ended", "%v", context.Cause(next.Context()))
		case <-time.After(ttl): // it has been renewed
		}
		found, err = peer.Interrupt(t.Context(), "key")
		require.NoError(t, err)
		require.True(t, found)
		require.ErrorIs(t, awaitEnd(t, next), lock.ErrInterrupted)
		require.NoError(t, next.Release(t.Context()))
	}
	require.Positive(t, passed)
}

// A lease that is in line to be renewed when it is passed on is renewed all the
// same. Over a line on which a trip takes a fifth of the TTL they all are.
func TestPassedOnWhileInLine(t *testing.T) {
	const ttl = 600 * time.Millisecond
	server := redistest.Start(t)
	line := redistest.NewProxy(t, server.Addr())
	l := open(t, dial(t, line.Addr()))
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	line.Delay(60 * time.Millisecond)
	crowd := make(chan lock.Lease, 150)
	for i := range cap(crowd) {
		go func() {
			lease, err := l.Acquire(t.Context(), fmt.Sprint("crowd", i), lock.Options{TTL: ttl, Wait: patience})
			assert.NoError(t, err)
			crowd <- lease
		}()
		pause(3 * time.Millisecond)
	}
	passed := 0
	for round := 0; round < 4 || passed == 0; round++ {
		require.Less(t, round, 40, "none was passed on")
		lease := acquire(t, l, "key", lock.Options{TTL: ttl, Wait: patience})
		turn := acquireLater(t.Context(), l, lock.Options{TTL: ttl, Wait: patience})
		awaitAhead(t, l, 2)
		require.NoError(t, lease.Release(t.Context()))
		next := requireGranted(t, turn, patience)
		if next.Fence() == lease.Fence()+1 {
			passed++
		}
		select {
		case <-next.Context().Done():
			require.Fail(t, "lost", "%v", context.Cause(next.Context()))
		case <-time.After(2 * ttl):
		}
		require.NoError(t, next.Release(t.Context()))
	}
	line.Delay(0) // where a few connections are shared, the last would come too late
	each(t, cap(crowd), func(int) { assert.NoError(t, (<-crowd).Release(t.Context())) })
}

// However much one process passes on, who waits in another comes after those who
// came before and the tenures that are due, and not later.
func TestPassesLeaveOthersTheirTurn(t *testing.T) {
	const most, processes, callers = 4, 3, 120
	server := redistest.Start(t)
	locks := make([]*redislock.Locker, processes)
	for i := range locks {
		locks[i] = open(t, server.Client(), redislock.WithHandoff(most))
	}
	first := acquire(t, locks[0], "key", lock.Options{TTL: longTTL})
	var held sync.Mutex
	var served []int // callers, by their order of arrival
	passed, newest := 0, first.Fence()
	var all sync.WaitGroup
	apart := time.NewTicker(5 * time.Millisecond)
	defer apart.Stop()
	for i := range callers {
		l := locks[(i*i+i/7)%processes]
		<-apart.C
		all.Go(func() {
			lease, err := l.Acquire(t.Context(), "key", lock.Options{TTL: longTTL, Wait: time.Minute, MaxQueue: callers})
			if !assert.NoError(t, err) || !assert.True(t, held.TryLock(), "two hold the key") {
				return
			}
			served = append(served, i)
			if lease.Fence() == newest+1 {
				passed++
			}
			newest = lease.Fence()
			pause(time.Millisecond)
			held.Unlock()
			assert.NoError(t, lease.Release(t.Context()))
		})
	}
	<-apart.C
	require.NoError(t, first.Release(t.Context()))
	all.Wait()
	require.Len(t, served, callers)
	for place, i := range served {
		require.LessOrEqual(t, place, i+(most+1)*processes, "%v", served)
	}
	require.Greater(t, passed, callers/4)
}

// Who leaves as it finds its grant passes the lease on, and nothing of it is given
// up after that.
func TestCancelledAsItFindsItsGrant(t *testing.T) {
	const ttl = 3 * time.Second
	server := redistest.Start(t)
	line := redistest.NewProxy(t, server.Addr())
	l, peer := open(t, dial(t, line.Addr())), open(t, server.Client())
	held := acquire(t, peer, "key", lock.Options{TTL: ttl})
	ctx, cancel := context.WithCancel(t.Context())
	first := enqueue(ctx, t, server, l, 0, lock.Options{TTL: ttl})
	second := acquireLater(t.Context(), l, lock.Options{TTL: ttl, Wait: patience})
	awaitAhead(t, l, 2)
	line.Lose("message") // the grant: a question finds it
	line.Delay(100 * time.Millisecond)
	require.NoError(t, held.Release(t.Context()))
	left := func() time.Duration { return server.Client().PTTL(t.Context(), lockKey("key")).Val() }
	last := left()
	require.Eventually(t, func() bool { // that question has armed the TTL again
		before := last
		last = left()
		return last > before
	}, patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, (<-first).err, context.Canceled)
	line.Lose("")
	next := requireGranted(t, second, patience)
	_, err := peer.Acquire(t.Context(), "key", lock.Options{TTL: ttl, Wait: time.Second})
	require.ErrorIs(t, err, lock.ErrBusy)
	require.NoError(t, context.Cause(next.Context()))
	require.NoError(t, next.Release(t.Context()))
}
