package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
	for range 4 {
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
	require.Positive(t, passed)
	line.Delay(0) // where a few connections are shared, the last would come too late
	each(t, cap(crowd), func(int) { assert.NoError(t, (<-crowd).Release(t.Context())) })
}

// However much one process passes on, who waits in another comes after those who
// came before and the tenures that are due, and not later.
func TestPassesLeaveOthersTheirTurn(t *testing.T) {
	const most, processes, callers = 4, 3, 16
	server := redistest.Start(t)
	var started atomic.Int64 // holds
	var waiting atomic.Int64
	var held sync.Mutex
	var passed atomic.Int64
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	var all sync.WaitGroup
	for range processes {
		l := open(t, server.Client(), redislock.WithHandoff(most))
		var newest uint64 // fence in this process, guarded by held
		for range callers {
			all.Go(func() {
				for ctx.Err() == nil {
					before, ahead := started.Load(), waiting.Add(1)
					lease, err := l.Acquire(t.Context(), "key", lock.Options{TTL: longTTL, Wait: time.Minute})
					if !assert.NoError(t, err) {
						return
					}
					if !assert.True(t, held.TryLock(), "two hold the key") {
						return
					}
					after := started.Add(1) - before
					waiting.Add(-1)
					// Who asks at the same time may be seen here and not there.
					assert.LessOrEqual(t, after, ahead+(most+1)*processes)
					if lease.Fence() == newest+1 {
						passed.Add(1)
					}
					newest = lease.Fence()
					pause(time.Millisecond)
					held.Unlock()
					assert.NoError(t, lease.Release(t.Context()))
				}
			})
		}
	}
	all.Wait()
	t.Logf("%d holds, %d passed on", started.Load(), passed.Load())
	require.Greater(t, passed.Load(), started.Load()/4)
}
