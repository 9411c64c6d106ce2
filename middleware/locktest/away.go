package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

const away = 1500 * time.Millisecond // within a second, and a margin

// awaitBack returns a lease once the backend answers again.
func awaitBack(t *testing.T, l lock.Locker, key string) lock.Lease {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		lease, err := l.Acquire(t.Context(), key, lock.Options{TTL: longTTL, Wait: time.Until(deadline)})
		if err == nil {
			return lease
		}
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.True(t, time.Now().Before(deadline), "not back within %v: %v", patience, err)
		time.Sleep(10 * time.Millisecond)
	}
}

// within returns what call does, which must not hang with the backend.
func within(t *testing.T, what string, call func() error) error {
	t.Helper()
	errs := make(chan error, 1)
	go func() { errs <- call() }()
	return await(t, errs, away, what)
}

func awayIsUnavailable(t *testing.T, f Fixture) {
	release(t, hold(t, f.Locker, "key", longTTL))
	t.Cleanup(f.Heal)
	f.Break()
	var waiters []<-chan answer
	for range 10 {
		for _, wait := range []time.Duration{patience, 0} {
			waiters = append(waiters, ask(t.Context(), f.Locker, "key", lock.Options{TTL: longTTL, Wait: wait}))
		}
	}
	start := time.Now()
	for _, w := range waiters {
		a := await(t, w, away-time.Since(start), "the answer of a backend that is away")
		requireDenied(t, a.lease, a.err, lock.ErrUnavailable)
	}
	err := within(t, "the end of an interrupt", func() error {
		_, err := f.Locker.Interrupt(t.Context(), "key")
		return err
	})
	require.ErrorIs(t, err, lock.ErrUnavailable)

	f.Heal()
	release(t, awaitBack(t, f.Locker, "key"))
	requireFree(t, f.Locker, "key")
}

func awayWhileCancelled(t *testing.T, f Fixture) {
	release(t, hold(t, f.Locker, "key", longTTL))
	t.Cleanup(f.Heal)
	f.Break()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errGone)
	defer cancel()
	waiter := ask(ctx, f.Locker, "key", lock.Options{TTL: longTTL, Wait: patience})
	a := await(t, waiter, away, "the end of a cancelled call")
	if !errors.Is(a.err, errGone) {
		requireDenied(t, a.lease, a.err, lock.ErrUnavailable)
	}
	f.Heal()
	for _, l := range f.lockers() {
		release(t, awaitBack(t, l, "key")) // what was sent has not come to hold the key
	}
}

func goesAwayWhileWaiting(t *testing.T, f Fixture) {
	lease := hold(t, f.Peer, "key", longTTL)
	t.Cleanup(f.Heal)
	var waiters []<-chan answer
	for range 10 {
		waiters = append(waiters, ask(t.Context(), f.Locker, "key", lock.Options{TTL: longTTL, Wait: patience}))
	}
	awaitQueued(t, f.Locker, "key", len(waiters)-1) // at least: see cancelWaitingPeer
	f.Break()
	start := time.Now()
	for _, w := range waiters {
		a := await(t, w, 2*away-time.Since(start), "the answer of a backend that went away")
		requireDenied(t, a.lease, a.err, lock.ErrUnavailable)
	}
	f.Heal()
	_ = lease.Release(t.Context()) // unacknowledged or not
	release(t, awaitBack(t, f.Locker, "key"))
}

func awayEndsLease(t *testing.T, f Fixture) {
	lease := hold(t, f.Locker, "key", shortTTL)
	t.Cleanup(f.Heal)
	f.Break()
	requireEnds(t, lease, lock.ErrLost, shortTTL+margin)
	require.ErrorIs(t, within(t, "the end of a release", func() error { return lease.Release(t.Context()) }), lock.ErrLost)
	f.Heal()
	release(t, awaitBack(t, f.Locker, "key"))
}

func releaseWhileAway(t *testing.T, f Fixture) {
	lease := hold(t, f.Locker, "key", longTTL)
	t.Cleanup(f.Heal)
	f.Break()
	err := within(t, "the end of a release", func() error { return lease.Release(t.Context()) })
	require.ErrorIs(t, err, lock.ErrUnavailable)
	require.Error(t, lease.Context().Err())
	require.Equal(t, err, lease.Release(t.Context()), "calls after the first return what the first returned")
	f.Heal()
	for _, l := range f.lockers() {
		release(t, awaitBack(t, l, "key")) // the TTL would free it later
	}
}
