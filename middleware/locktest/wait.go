package locktest

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

func tryIsAnswered(t *testing.T, f Fixture) { try(t, f.Locker, f.Locker) }

func tryIsAnsweredPeer(t *testing.T, f Fixture) { try(t, f.Peer, f.Locker) }

func try(t *testing.T, holder, other lock.Locker) {
	lease := hold(t, holder, "key", longTTL)
	a := await(t, ask(t.Context(), other, "key", lock.Options{TTL: longTTL}), margin, "the answer to a try")
	requireDenied(t, a.lease, a.err, lock.ErrBusy)
	requireAlive(t, lease, 0)
	release(t, lease)
	requireFree(t, other, "key")
}

func oneTryWins(t *testing.T, f Fixture) { tries(t, f.Locker) }

func oneTryWinsPeer(t *testing.T, f Fixture) { tries(t, f.Locker, f.Peer) }

func tries(t *testing.T, lockers ...lock.Locker) {
	for range 10 {
		var answers []<-chan answer
		for i := range 50 {
			answers = append(answers, ask(t.Context(), lockers[i%len(lockers)], "key", lock.Options{TTL: longTTL}))
		}
		var leases []lock.Lease
		for _, c := range answers {
			if a := await(t, c, margin, "the answer to a try"); a.err == nil {
				leases = append(leases, a.lease)
			} else {
				requireDenied(t, a.lease, a.err, lock.ErrBusy)
			}
		}
		require.Len(t, leases, 1)
		release(t, leases[0])
	}
}

func tryNeitherQueuesNorOvertakes(t *testing.T, f Fixture) {
	lease := hold(t, f.Locker, "key", longTTL)
	for range 20 {
		waiter := enqueue(t.Context(), t, f.Locker, "key", 1)
		for range 3 {
			got, err := f.Locker.Acquire(t.Context(), "key", lock.Options{TTL: longTTL, MaxQueue: 1})
			requireDenied(t, got, err, lock.ErrBusy)
			requireAhead(t, err, 2)
		}
		requireQueued(t, f.Locker, "key", 1)

		release(t, lease)
		requireBusy(t, f.Locker, "key") // the waiter's, whether it knows yet or not
		a := await(t, waiter, patience, "the waiter's turn")
		require.NoError(t, a.err)
		lease = a.lease
	}
	release(t, lease)
	requireFree(t, f.Locker, "key")
}

// requireAhead checks how many a caller was told to be behind. It is exact
// where the holder is of the same process.
func requireAhead(t *testing.T, err error, want int) {
	t.Helper()
	busy, ok := errors.AsType[*lock.BusyError](err)
	require.True(t, ok)
	require.Equal(t, want, busy.Ahead, "the holder and those waiting before")
}

func waitEnds(t *testing.T, f Fixture) {
	boundedWait(t, f.Locker, f.Locker, longTTL, 300*time.Millisecond)
}

func waitEndsPeer(t *testing.T, f Fixture) {
	boundedWait(t, f.Peer, f.Locker, longTTL, 300*time.Millisecond)
}

func waitOutlastsTTL(t *testing.T, f Fixture) {
	boundedWait(t, f.Locker, f.Locker, shortTTL, 3*shortTTL)
}

func waitOutlastsTTLPeer(t *testing.T, f Fixture) {
	boundedWait(t, f.Peer, f.Locker, shortTTL, 3*shortTTL)
}

// boundedWait has many wait for a key that stays held: each is turned away
// after its own wait, however many wait before it.
func boundedWait(t *testing.T, holder, other lock.Locker, ttl, wait time.Duration) {
	lease := hold(t, holder, "key", ttl)
	var waiters []<-chan answer
	for range 200 {
		waiters = append(waiters, ask(t.Context(), other, "key", lock.Options{TTL: ttl, Wait: wait, MaxQueue: 200}))
	}
	for _, w := range waiters {
		a := await(t, w, patience, "the end of the wait")
		requireDenied(t, a.lease, a.err, lock.ErrBusy)
		require.GreaterOrEqual(t, a.took, wait*9/10, "gave up early")
		require.LessOrEqual(t, a.took, wait+margin, "gave up late")
	}
	requireAlive(t, lease, 0)
	release(t, lease)
	requireFree(t, other, "key")
}

func orderOfArrival(t *testing.T, f Fixture) {
	const n = 50
	lease := hold(t, f.Locker, "key", longTTL)
	served := make(chan int, n)
	for i := range n {
		go func() {
			lease, err := f.Locker.Acquire(t.Context(), "key", lock.Options{TTL: longTTL, Wait: patience, MaxQueue: 2 * n})
			if err != nil {
				served <- -1
				return
			}
			served <- i
			_ = lease.Release(t.Context())
		}()
		awaitQueued(t, f.Locker, "key", i+1)
	}
	release(t, lease)
	for want := range n {
		require.Equal(t, want, await(t, served, patience, "a waiter's turn"), "served out of turn")
	}
	release(t, hold(t, f.Locker, "key", longTTL))
}

func queueFull(t *testing.T, f Fixture) {
	lease := hold(t, f.Locker, "key", longTTL)
	const n = lock.DefaultMaxQueue
	var waiters [n]<-chan answer
	for i := range waiters {
		waiters[i] = enqueue(t.Context(), t, f.Locker, "key", i+1)
		for _, o := range []lock.Options{
			{Wait: patience, MaxQueue: i + 1},
			{Wait: patience, MaxQueue: (i + 2) / 2},
		} {
			a := await(t, ask(t.Context(), f.Locker, "key", o), margin, "the answer of a full queue")
			requireDenied(t, a.lease, a.err, lock.ErrQueueFull)
			requireAhead(t, a.err, i+2)
		}
		// One more than there are fits, and the default is DefaultMaxQueue.
		roomy := lock.Options{Wait: time.Millisecond, MaxQueue: i + 2}
		if i+1 < n {
			roomy.MaxQueue = 0
		}
		got, err := f.Locker.Acquire(t.Context(), "key", roomy)
		requireDenied(t, got, err, lock.ErrBusy)
	}
	a := await(t, ask(t.Context(), f.Locker, "key", lock.Options{Wait: patience}), margin, "the answer of a queue that is full by default")
	requireDenied(t, a.lease, a.err, lock.ErrQueueFull)

	for _, w := range waiters {
		release(t, lease)
		a := await(t, w, patience, "the turn of a waiter")
		require.NoError(t, a.err)
		lease = a.lease
	}
	release(t, lease)
	requireFree(t, f.Locker, "key")
}
