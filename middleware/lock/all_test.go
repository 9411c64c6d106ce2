package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// asked is memlock that remembers what it was asked for.
type asked struct {
	*memlock.Locker
	keys  []string
	waits []time.Duration
}

func (l *asked) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	l.keys, l.waits = append(l.keys, key), append(l.waits, o.Wait)
	return l.Locker.Acquire(ctx, key, o)
}

func hold(t *testing.T, l lock.Locker, key string) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(context.WithoutCancel(t.Context()), key, lock.Options{})
	require.NoError(t, err)
	return lease
}

func requireFree(t *testing.T, l lock.Locker, keys ...string) {
	t.Helper()
	for _, key := range keys {
		require.NoError(t, hold(t, l, key).Release(t.Context()), key)
	}
}

// In sorted order, each key once; what the caller gave stays as it was.
func TestAcquireAll(t *testing.T) {
	given := []string{"b", "c", "a", "b", "a"}
	locks := &asked{Locker: memlock.New()}
	leases, err := lock.AcquireAll(t.Context(), locks, given, lock.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c"}, locks.keys)
	require.Equal(t, []string{"b", "c", "a", "b", "a"}, given)
	require.Len(t, leases, 3)
	for i, key := range locks.keys {
		require.Equal(t, key, leases[i].Key())
		_, err := locks.Locker.Acquire(t.Context(), key, lock.Options{})
		require.ErrorIs(t, err, lock.ErrBusy)
	}
	for _, l := range leases {
		require.NoError(t, l.Release(t.Context()))
	}
	requireFree(t, locks.Locker, "a", "b", "c")
}

// The context of the last ends when any of the leases does, with its cause.
func TestAcquireAllEndsTogether(t *testing.T) {
	for lost := range 3 {
		locks := guardtest.NewLosable()
		leases, err := lock.AcquireAll(t.Context(), locks, []string{"a", "b", "c"}, lock.Options{})
		require.NoError(t, err)
		last := leases[2].Context()
		require.NoError(t, last.Err())
		guardtest.Lose(leases[lost].Context(), lock.ErrStolen)
		<-last.Done()
		require.ErrorIs(t, context.Cause(last), lock.ErrStolen)
		for _, l := range leases {
			require.NoError(t, l.Release(t.Context()))
		}
		requireFree(t, locks, "a", "b", "c")
	}
}

// All or nothing: what cannot be had whole leaves nothing held.
func TestAcquireAllOrNothing(t *testing.T) {
	for _, busy := range []string{"a", "b", "c"} {
		locks := memlock.New()
		held := hold(t, locks, busy)
		leases, err := lock.AcquireAll(t.Context(), locks, []string{"c", "b", "a"}, lock.Options{})
		require.ErrorIs(t, err, lock.ErrBusy)
		require.ErrorContains(t, err, "lock: acquire all: key ")
		require.ErrorContains(t, err, " of 3: ")
		require.NotContains(t, err.Error(), fmt.Sprintf("%q", busy)) // keys can be personal
		require.Nil(t, leases)
		busyErr, ok := errors.AsType[*lock.BusyError](err)
		require.True(t, ok)
		require.Equal(t, 1, busyErr.Ahead)
		require.NoError(t, held.Release(t.Context()))
		requireFree(t, locks, "a", "b", "c")
	}
}

func TestAcquireAllRefuses(t *testing.T) {
	locks := &asked{Locker: memlock.New()}
	_, err := lock.AcquireAll(t.Context(), locks, nil, lock.Options{})
	require.EqualError(t, err, "lock: acquire all: no keys")
	_, err = lock.AcquireAll(t.Context(), locks, []string{"a"}, lock.Options{Wait: -1})
	require.ErrorContains(t, err, "lock: Wait of -1ns")
	_, err = lock.AcquireAll(t.Context(), locks, []string{"a", ""}, lock.Options{})
	require.ErrorContains(t, err, "the key is empty")
	requireFree(t, locks.Locker, "a")
}

// The cause of a context that is done, before or while it waits.
func TestAcquireAllWithContextDone(t *testing.T) {
	cause := errors.New("gone")
	for _, after := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			locks := memlock.New()
			held := hold(t, locks, "b")
			ctx, cancel := context.WithCancelCause(t.Context())
			if after == 0 {
				cancel(cause)
			}
			time.AfterFunc(after, func() { cancel(cause) })
			began := time.Now()
			_, err := lock.AcquireAll(ctx, locks, []string{"a", "b"}, lock.Options{Wait: time.Minute})
			require.ErrorIs(t, err, cause)
			require.NotErrorIs(t, err, lock.ErrBusy)
			require.Equal(t, after, time.Since(began))
			require.NoError(t, held.Release(t.Context()))
			requireFree(t, locks, "a", "b")
		})
	}
}

// A lease that is lost while the next key is waited for ends the wait.
func TestAcquireAllLosesTheFirstMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := guardtest.NewPrimary(0)
		held := hold(t, primary, "b")
		time.AfterFunc(time.Second, primary.Forget)
		_, err := lock.AcquireAll(t.Context(), primary, []string{"a", "b"}, lock.Options{Wait: time.Minute})
		require.ErrorIs(t, err, lock.ErrExpired)
		_ = held.Release(t.Context())
		requireFree(t, primary, "a", "b")
	})
}

// Wait is for all keys together.
func TestAcquireAllSharesTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := &asked{Locker: memlock.New()}
		keys := []string{"a", "b", "c"}
		for i, key := range keys {
			held := hold(t, locks.Locker, key)
			time.AfterFunc(time.Duration(i+1)*2*time.Second, func() { _ = held.Release(t.Context()) })
		}
		began := time.Now()
		_, err := lock.AcquireAll(t.Context(), locks, keys, lock.Options{Wait: 5 * time.Second})
		require.ErrorIs(t, err, lock.ErrBusy)
		require.Equal(t, 5*time.Second, time.Since(began))
		require.Equal(t, []time.Duration{5 * time.Second, 3 * time.Second, time.Second}, locks.waits)
		time.Sleep(time.Minute)
		requireFree(t, locks.Locker, keys...)
	})
}

// Whatever pairs callers ask for, in whatever order: no two of them wait for each
// other, and none works beside another.
func TestAcquireAllDoesNotDeadlock(t *testing.T) {
	const workers, rounds = 16, 100
	locks := memlock.New()
	keys := []string{"a", "b", "c", "d"}
	var working [4]int // each guarded by its key: -race finds two at a time
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range rounds {
				i, j := rand.IntN(len(keys)), rand.IntN(len(keys))
				leases, err := lock.AcquireAll(t.Context(), locks, []string{keys[i], keys[j]}, lock.Options{Wait: time.Minute})
				if !assert.NoError(t, err) {
					return
				}
				working[i]++
				working[j]++
				for _, l := range leases {
					assert.NoError(t, l.Release(t.Context()))
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 2*workers*rounds, working[0]+working[1]+working[2]+working[3])
}
