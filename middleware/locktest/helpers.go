package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

const (
	shortTTL = 500 * time.Millisecond // long enough for a renewal to come in time on a busy machine
	longTTL  = 30 * time.Second       // never runs out during a case: what it would free stays visible
	margin   = time.Second            // that an upper bound may be late by
	patience = 10 * time.Second       // for what must happen, however slow the machine
)

// hold acquires a key that is free or about to be.
func hold(t *testing.T, l lock.Locker, key string, ttl time.Duration) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key, lock.Options{TTL: ttl, Wait: patience})
	require.NoError(t, err)
	return lease
}

func release(t *testing.T, lease lock.Lease) {
	t.Helper()
	require.NoError(t, lease.Release(t.Context()))
}

// requireBusy tries once and must be turned away.
func requireBusy(t *testing.T, l lock.Locker, key string) {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key, lock.Options{TTL: longTTL})
	requireDenied(t, lease, err, lock.ErrBusy)
}

// requireFree tries once and must get the key; it leaves it free.
func requireFree(t *testing.T, l lock.Locker, key string) {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key, lock.Options{TTL: longTTL})
	require.NoError(t, err, "the key must be free")
	release(t, lease)
}

// requireDenied checks what Acquire returned: no lease, and an error that
// matches want and is nothing else that Acquire may say. A nil want is what
// none of that is for: a caller's mistake.
func requireDenied(t *testing.T, lease lock.Lease, err, want error) {
	t.Helper()
	if lease != nil {
		_ = lease.Release(context.WithoutCancel(t.Context()))
	}
	require.Nil(t, lease, "a lease was given out")
	require.Error(t, err)
	if want != nil {
		require.ErrorIs(t, err, want)
	}
	for _, other := range []error{lock.ErrBusy, lock.ErrQueueFull, lock.ErrUnavailable} {
		if want != other {
			require.NotErrorIs(t, err, other)
		}
	}
	if want == nil {
		require.NotErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
	}
	busy, ok := errors.AsType[*lock.BusyError](err)
	require.Equal(t, errors.Is(err, lock.ErrBusy) || errors.Is(err, lock.ErrQueueFull), ok, "ErrBusy and ErrQueueFull come as *lock.BusyError, nothing else does")
	if ok {
		require.GreaterOrEqual(t, busy.Ahead, 1)
	}
}

// An answer is what an Acquire in the background returned.
type answer struct {
	lease lock.Lease
	err   error
	took  time.Duration
}

// ask starts an Acquire in the background.
func ask(ctx context.Context, l lock.Locker, key string, o lock.Options) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		start := time.Now()
		lease, err := l.Acquire(ctx, key, o)
		answers <- answer{lease, err, time.Since(start)}
	}()
	return answers
}

// enqueue starts an Acquire that is then known to wait, as the n-th.
func enqueue(ctx context.Context, t *testing.T, l lock.Locker, key string, n int) <-chan answer {
	t.Helper()
	answers := ask(ctx, l, key, lock.Options{TTL: longTTL, Wait: patience, MaxQueue: 1 << 20})
	awaitQueued(t, l, key, n)
	return answers
}

// awaitQueued returns once n callers of l wait for key, which must be held by
// a lease of l. While fewer do, the question itself waits, for a moment.
func awaitQueued(t *testing.T, l lock.Locker, key string, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		lease, err := l.Acquire(t.Context(), key, lock.Options{TTL: longTTL, Wait: time.Millisecond, MaxQueue: n})
		if errors.Is(err, lock.ErrQueueFull) {
			return
		}
		requireDenied(t, lease, err, lock.ErrBusy)
	}
	require.Fail(t, "waiters do not count", "%d wait, yet MaxQueue %d is never reached", n, n)
}

// requireQueued checks that no more than n callers of l wait for key.
func requireQueued(t *testing.T, l lock.Locker, key string, n int) {
	t.Helper()
	if n > 0 {
		awaitQueued(t, l, key, n)
	}
	lease, err := l.Acquire(t.Context(), key, lock.Options{TTL: longTTL, Wait: time.Millisecond, MaxQueue: n + 1})
	requireDenied(t, lease, err, lock.ErrBusy)
}

// await returns what comes from c within limit.
func await[T any](t *testing.T, c <-chan T, limit time.Duration, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(limit):
		require.Fail(t, "not in time", "%s: not within %v", what, limit)
	}
	return v
}

// requireEnds waits until the lease's context has ended with want.
func requireEnds(t *testing.T, lease lock.Lease, want error, limit time.Duration) {
	t.Helper()
	await(t, lease.Context().Done(), limit, "the end of the lease's context")
	require.ErrorIs(t, context.Cause(lease.Context()), want)
}

// requireAlive checks that the lease's context does not end for d.
func requireAlive(t *testing.T, lease lock.Lease, d time.Duration) {
	t.Helper()
	select {
	case <-lease.Context().Done():
	case <-time.After(d):
	}
	require.NoError(t, context.Cause(lease.Context()), "the lease's context ended")
}
