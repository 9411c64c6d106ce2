package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

var errGone = errors.New("locktest: the client has gone")

func doneContext(t *testing.T, f Fixture) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	all := []lock.Options{
		{TTL: longTTL},
		{TTL: longTTL, Wait: patience},
		{TTL: longTTL, Wait: patience, MaxQueue: 1},
	}
	ask := func(o lock.Options) {
		t.Helper()
		a := await(t, ask(ctx, f.Locker, "key", o), margin, "the answer to a done context")
		requireDenied(t, a.lease, a.err, errGone)
	}
	for _, o := range all {
		ask(o)
		requireFree(t, f.Locker, "key")
	}
	lease := hold(t, f.Locker, "key", longTTL)
	for _, o := range all {
		ask(o)
	}
	waiter := enqueue(t.Context(), t, f.Locker, "key", 1)
	for _, o := range all {
		ask(o)
	}
	release(t, lease)
	a := await(t, waiter, patience, "the waiter's turn")
	require.NoError(t, a.err)
	release(t, a.lease)
	requireFree(t, f.Locker, "key")
}

func cancelWaiting(t *testing.T, f Fixture) {
	lease := hold(t, f.Locker, "key", longTTL)
	ctx, cancel := context.WithCancelCause(t.Context())
	leaver := enqueue(ctx, t, f.Locker, "key", 1)
	stayer := enqueue(t.Context(), t, f.Locker, "key", 2)
	cancel(errGone)
	a := await(t, leaver, margin, "the end of a cancelled wait")
	requireDenied(t, a.lease, a.err, errGone)
	requireQueued(t, f.Locker, "key", 1) // it left no place behind
	release(t, lease)
	a = await(t, stayer, patience, "the turn of the waiter behind")
	require.NoError(t, a.err)
	release(t, a.lease)
	requireFree(t, f.Locker, "key")
}

func cancelWaitingPeer(t *testing.T, f Fixture) {
	for round := range 6 {
		lease := hold(t, f.Peer, "key", longTTL)
		ctx, cancel := context.WithCancelCause(t.Context())
		contexts := []context.Context{ctx, t.Context()}
		waiters := make([]<-chan answer, 2)
		for i := range waiters {
			// The one that leaves is the foremost of its process, which may be
			// all that the backend knows of, or is behind it.
			who := (i + round) % 2
			waiters[who] = ask(contexts[who], f.Locker, "key", lock.Options{TTL: longTTL, Wait: patience})
			spin(2 * time.Millisecond)
		}
		cancel(errGone)
		a := await(t, waiters[0], margin, "the end of a cancelled wait")
		requireDenied(t, a.lease, a.err, errGone)
		release(t, lease)
		a = await(t, waiters[1], patience, "the turn of the waiter that stays")
		require.NoError(t, a.err)
		release(t, a.lease)
		requireFree(t, f.Peer, "key")
	}
}

func deadlineWaiting(t *testing.T, f Fixture) {
	lease := hold(t, f.Locker, "key", longTTL)
	const limit = 50 * time.Millisecond
	for _, want := range []error{context.DeadlineExceeded, errGone} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), limit, want)
		a := await(t, ask(ctx, f.Locker, "key", lock.Options{TTL: longTTL, Wait: patience}), limit+margin, "the end of a wait by deadline")
		requireDenied(t, a.lease, a.err, want)
		cancel()
	}
	release(t, lease)
	requireFree(t, f.Locker, "key")
}

func cancelAnyMoment(t *testing.T, f Fixture) {
	start := time.Now()
	for range 10 {
		release(t, hold(t, f.Locker, "key", longTTL))
	}
	usual := time.Since(start) / 10

	for range 200 {
		ctx, cancel := context.WithCancelCause(t.Context())
		answers := ask(ctx, f.Locker, "key", lock.Options{TTL: longTTL, Wait: patience})
		spin(rand.N(usual + 1))
		cancel(errGone)
		a := await(t, answers, patience, "the answer")
		if a.err == nil {
			release(t, a.lease)
		} else {
			requireDenied(t, a.lease, a.err, errGone)
		}
		requireSoonFree(t, f)
	}
}

func cancelWhenGranted(t *testing.T, f Fixture) {
	delay := time.Microsecond // closes in on how long it takes until the turn comes
	for range 200 {
		lease := hold(t, f.Locker, "key", longTTL)
		ctx, cancel := context.WithCancelCause(t.Context())
		leaver := enqueue(ctx, t, f.Locker, "key", 1)
		stayer := enqueue(t.Context(), t, f.Locker, "key", 2)
		released := make(chan error, 1)
		go func() { released <- lease.Release(t.Context()) }()
		spin(delay/2 + rand.N(delay+1))
		cancel(errGone)
		require.NoError(t, <-released)
		a := await(t, leaver, patience, "the answer to a cancelled waiter")
		if a.err == nil {
			release(t, a.lease)
			delay -= delay / 8
		} else {
			requireDenied(t, a.lease, a.err, errGone)
			delay += delay/8 + time.Microsecond
		}
		a = await(t, stayer, patience, "the turn of the waiter behind")
		require.NoError(t, a.err)
		release(t, a.lease)
	}
	requireFree(t, f.Locker, "key")
}

func cancelWhenReleasedPeer(t *testing.T, f Fixture) {
	for range 40 {
		lease := hold(t, f.Peer, "key", longTTL)
		ctx, cancel := context.WithCancelCause(t.Context())
		leaver := ask(ctx, f.Locker, "key", lock.Options{TTL: longTTL, Wait: patience})
		released := make(chan error, 1)
		go func() { released <- lease.Release(t.Context()) }()
		spin(rand.N(2 * time.Millisecond))
		cancel(errGone)
		require.NoError(t, <-released)
		a := await(t, leaver, patience, "the answer to a cancelled waiter")
		if a.err == nil {
			release(t, a.lease)
		} else {
			requireDenied(t, a.lease, a.err, errGone)
		}
		requireSoonFree(t, f)
	}
}

// Whoever shares a round trip with one that leaves must not leave with it.
func cancelledTryHarmsNone(t *testing.T, f Fixture) {
	for range 20 {
		ctx, cancel := context.WithCancelCause(t.Context())
		var leavers, stayers []<-chan answer
		for range 10 {
			leavers = append(leavers, ask(ctx, f.Locker, "key", lock.Options{TTL: longTTL}))
			stayers = append(stayers, ask(t.Context(), f.Locker, "key", lock.Options{TTL: longTTL}))
		}
		cancel(errGone)
		var leases []lock.Lease
		for i, c := range append(leavers, stayers...) {
			a := await(t, c, patience, "the answer to a try")
			switch {
			case a.err == nil:
				leases = append(leases, a.lease)
			case i < len(leavers) && errors.Is(a.err, errGone):
			default:
				requireDenied(t, a.lease, a.err, lock.ErrBusy)
			}
		}
		require.LessOrEqual(t, len(leases), 1)
		for _, lease := range leases {
			release(t, lease)
		}
		requireSoonFree(t, f)
	}
}

// requireSoonFree takes the key in every process: a call that was cancelled
// may still be cleaning up, but not for as long as its TTL.
func requireSoonFree(t *testing.T, f Fixture) {
	t.Helper()
	for _, l := range f.lockers() {
		lease, err := l.Acquire(t.Context(), "key", lock.Options{TTL: longTTL, Wait: 5 * margin})
		require.NoError(t, err, "a cancelled call has left the key held")
		release(t, lease)
	}
}

// spin passes time without sleeping: what is to be hit may take a microsecond.
func spin(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
		runtime.Gosched()
	}
}
