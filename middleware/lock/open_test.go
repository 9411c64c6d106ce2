package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

func TestOpen(t *testing.T) {
	first, err := lock.Open.Acquire(t.Context(), "key", lock.Options{})
	require.NoError(t, err)
	second, err := lock.Open.Acquire(t.Context(), "key", lock.Options{})
	require.NoError(t, err, "it excludes nobody")
	for _, l := range []lock.Lease{first, second} {
		require.Equal(t, "key", l.Key())
		require.Zero(t, l.Fence())
		got, ok := lock.From(l.Context())
		require.True(t, ok)
		require.Same(t, l, got)
	}

	held, err := lock.Open.Interrupt(t.Context(), "key")
	require.NoError(t, err)
	require.False(t, held)
	require.NoError(t, first.Context().Err())

	done, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		require.NoError(t, first.Release(done))
		require.ErrorIs(t, context.Cause(first.Context()), lock.ErrReleased)
	}
	require.NoError(t, second.Context().Err())
	require.NoError(t, second.Release(t.Context()))
	require.Equal(t, "lock.Open", fmt.Sprint(lock.Open))
}

func TestOpenRefuses(t *testing.T) {
	cause := errors.New("gone")
	done, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	_, err := lock.Open.Acquire(done, "key", lock.Options{})
	require.ErrorIs(t, err, cause)
	_, err = lock.Open.Acquire(t.Context(), "", lock.Options{})
	require.EqualError(t, err, "lock: open: acquire: the key is empty")
	_, err = lock.Open.Acquire(t.Context(), "key", lock.Options{TTL: -1})
	require.ErrorContains(t, err, "lock: open: acquire: lock: TTL")
	_, err = lock.Open.Interrupt(t.Context(), "")
	require.EqualError(t, err, "lock: open: interrupt: the key is empty")
}

// A lease ends with the context that it was acquired with, for its cause.
func TestOpenLeaseEndsWithItsContext(t *testing.T) {
	cause := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	l, err := lock.Open.Acquire(ctx, "key", lock.Options{})
	require.NoError(t, err)
	cancel(cause)
	require.ErrorIs(t, context.Cause(l.Context()), cause)
	require.NoError(t, l.Release(ctx))
}
