package locktest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

func interruptHolder(t *testing.T, f Fixture) { interrupted(t, f.Locker, f.Locker) }

func interruptPeer(t *testing.T, f Fixture) { interrupted(t, f.Locker, f.Peer) }

func interrupted(t *testing.T, holder, other lock.Locker) {
	lease := hold(t, holder, "key", shortTTL)
	interrupt(t, other, "key", true)
	requireEnds(t, lease, lock.ErrInterrupted, shortTTL+margin)
	interrupt(t, other, "key", true)

	// The key stays the holder's for as long as it needs to come to an end.
	got, err := other.Acquire(t.Context(), "key", lock.Options{TTL: shortTTL, Wait: 2 * shortTTL})
	requireDenied(t, got, err, lock.ErrBusy)
	release(t, lease)
	require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrInterrupted)
	requireFree(t, other, "key")
}

func interrupt(t *testing.T, l lock.Locker, key string, want bool) {
	t.Helper()
	held, err := l.Interrupt(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, want, held, "whether somebody holds the key")
}

func interruptFree(t *testing.T, f Fixture) {
	for _, l := range f.lockers() {
		interrupt(t, l, "key", false)
	}
	release(t, hold(t, f.Locker, "key", shortTTL))
	for _, l := range f.lockers() {
		interrupt(t, l, "key", false)
	}
	lease := hold(t, f.Locker, "key", shortTTL)
	requireAlive(t, lease, 2*shortTTL)
	release(t, lease)
}

func interruptSparesWaiters(t *testing.T, f Fixture) {
	lease := hold(t, f.Locker, "key", shortTTL)
	waiter := ask(t.Context(), f.Locker, "key", lock.Options{TTL: shortTTL, Wait: patience})
	awaitQueued(t, f.Locker, "key", 1)
	interrupt(t, f.Locker, "key", true)
	requireEnds(t, lease, lock.ErrInterrupted, shortTTL+margin)
	requireQueued(t, f.Locker, "key", 1)
	release(t, lease)
	a := await(t, waiter, patience, "the waiter's turn")
	require.NoError(t, a.err)
	requireAlive(t, a.lease, 2*shortTTL)
	release(t, a.lease)
}

func interruptSparesNext(t *testing.T, f Fixture) {
	for _, l := range f.lockers() {
		lease := hold(t, f.Locker, "key", shortTTL)
		interrupt(t, f.Peer, "key", true)
		release(t, lease) // perhaps before it has heard
		next := hold(t, l, "key", shortTTL)
		requireAlive(t, next, 2*shortTTL)
		release(t, next)
	}
}
