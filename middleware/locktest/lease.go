package locktest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

func leaseInContext(t *testing.T, f Fixture) {
	outer := hold(t, f.Locker, "outer", longTTL)
	inner, err := f.Locker.Acquire(outer.Context(), "inner", lock.Options{TTL: longTTL})
	require.NoError(t, err)
	again, err := f.Locker.Acquire(outer.Context(), "outer", lock.Options{TTL: longTTL})
	requireDenied(t, again, err, lock.ErrBusy) // a key is not re-entrant
	for _, want := range []lock.Lease{outer, inner} {
		got, ok := lock.From(want.Context())
		require.True(t, ok)
		require.Equal(t, want.Key(), got.Key())
		require.Equal(t, want.Fence(), got.Fence())
	}
	_, ok := lock.From(t.Context())
	require.False(t, ok)
	release(t, inner)
	requireAlive(t, outer, 0)
	release(t, outer)
}

func contextIsChild(t *testing.T, f Fixture) {
	type name struct{}
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), name{}, "value"), time.Hour)
	defer cancel()
	lease, err := f.Locker.Acquire(ctx, "key", lock.Options{TTL: longTTL})
	require.NoError(t, err)
	require.NoError(t, lease.Context().Err())
	require.Equal(t, "value", lease.Context().Value(name{}))
	want, _ := ctx.Deadline()
	got, ok := lease.Context().Deadline()
	require.True(t, ok, "the parent's deadline is not seen")
	require.Equal(t, want, got)
	release(t, lease)
	require.NoError(t, ctx.Err(), "the parent was ended")
}

func parentEnds(t *testing.T, f Fixture) {
	ctx, cancel := context.WithCancelCause(t.Context())
	lease, err := f.Locker.Acquire(ctx, "key", lock.Options{TTL: longTTL})
	require.NoError(t, err)
	cancel(errGone)
	requireEnds(t, lease, errGone, margin)
	for ended := time.Now(); time.Since(ended) < margin; { // the holder may still be at it
		requireBusy(t, f.Locker, "key")
	}
	release(t, lease)
	require.ErrorIs(t, context.Cause(lease.Context()), errGone)
	requireFree(t, f.Locker, "key")
}

func releaseFrees(t *testing.T, f Fixture) {
	for range 5 {
		for _, l := range f.lockers() {
			lease := hold(t, l, "key", longTTL)
			requireAlive(t, lease, 0)
			release(t, lease)
			require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrReleased)
			for _, l := range f.lockers() {
				requireFree(t, l, "key")
			}
		}
	}
}

func releaseTwice(t *testing.T, f Fixture) {
	first := hold(t, f.Locker, "key", longTTL)
	release(t, first)
	release(t, first)
	second := hold(t, f.Locker, "key", longTTL)
	release(t, first)
	requireBusy(t, f.Locker, "key")
	requireAlive(t, second, 0)
	release(t, second)
	requireFree(t, f.Locker, "key")
}

func releaseConcurrently(t *testing.T, f Fixture) {
	lease := hold(t, f.Locker, "key", longTTL)
	first := enqueue(t.Context(), t, f.Locker, "key", 1)
	second := enqueue(t.Context(), t, f.Locker, "key", 2)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			assert.NoError(t, lease.Release(t.Context()))
			assert.ErrorIs(t, context.Cause(lease.Context()), lock.ErrReleased)
		})
	}
	wg.Wait()
	a := await(t, first, patience, "the turn of the first waiter")
	require.NoError(t, a.err)
	requireQueued(t, f.Locker, "key", 1) // the second still waits
	release(t, a.lease)
	a = await(t, second, patience, "the turn of the second waiter")
	require.NoError(t, a.err)
	release(t, a.lease)
	requireFree(t, f.Locker, "key")
}

func releaseDoneContext(t *testing.T, f Fixture) {
	ctx, cancel := context.WithCancel(t.Context())
	lease, err := f.Locker.Acquire(ctx, "key", lock.Options{TTL: longTTL})
	require.NoError(t, err)
	cancel()
	require.NoError(t, lease.Release(ctx))
	requireFree(t, f.Locker, "key")

	lease = hold(t, f.Locker, "key", longTTL)
	require.NoError(t, lease.Release(ctx))
	require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrReleased)
	requireFree(t, f.Locker, "key")
}

func nothingLeftRunning(t *testing.T, f Fixture) {
	round := func(n int) {
		for i := range n {
			key := fmt.Sprintf("key-%d", i%7)
			ctx, cancel := context.WithCancelCause(t.Context())
			lease, err := f.Locker.Acquire(ctx, key, lock.Options{TTL: shortTTL})
			require.NoError(t, err)
			leaver := ask(ctx, f.Locker, key, lock.Options{Wait: patience})
			stayer := ask(t.Context(), f.Locker, key, lock.Options{Wait: patience})
			late := ask(t.Context(), f.Locker, key, lock.Options{Wait: time.Millisecond})
			requireBusy(t, f.Locker, key)
			a := await(t, late, patience, "the end of a short wait")
			requireDenied(t, a.lease, a.err, lock.ErrBusy)
			cancel(errGone)
			a = await(t, leaver, patience, "the end of a cancelled wait")
			requireDenied(t, a.lease, a.err, errGone)
			release(t, lease)
			a = await(t, stayer, patience, "the turn of a waiter")
			require.NoError(t, a.err)
			release(t, a.lease)
		}
	}
	const rounds = 50
	round(3)                                  // what the Locker keeps for all leases is running now,
	most := runtime.NumGoroutine() + rounds/2 // but for a few connections
	round(rounds)
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > most {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			require.Failf(t, "goroutines are left", "%d after %d rounds, expected %d at most:\n%s", runtime.NumGoroutine(), rounds, most, stacks)
		}
		time.Sleep(time.Millisecond)
	}
}
