package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// AcquireAll acquires several keys for one piece of work: all of them or none. It
// takes them in sorted order, whatever the order of keys, so that two calls do not
// wait for each other; a key that is given twice is acquired once. o.Wait is for
// all of them together.
//
// The leases come in that order. Each is acquired under the context of the one
// before, so that of the last one ends when any of them does: it is the one to
// work with. Release each of them.
//
//	leases, err := lock.AcquireAll(ctx, locks, []string{from, to}, lock.Options{Wait: time.Second})
//	if err != nil {
//		return err
//	}
//	for _, l := range leases {
//		defer l.Release(ctx)
//	}
//	return transfer(leases[len(leases)-1].Context(), from, to)
//
// Errors are those of [Locker.Acquire], of the first key that was not to be had; the
// cause of ctx can be why a lease that it had by then ended. It matches none of them
// where there are no keys. A guard's fallback is not asked.
//
// Who holds a key already, as a guarded handler does, and acquires the same one waits
// for itself, and who acquires others that sort before it can wait for somebody who
// does the reverse, until the wait is over.
func AcquireAll(ctx context.Context, l Locker, keys []string, o Options) ([]Lease, error) {
	if len(keys) == 0 {
		return nil, errors.New("lock: acquire all: no keys")
	}
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	deadline := time.Now().Add(o.Wait)
	leases := make([]Lease, 0, len(keys))
	for _, key := range keys {
		lease, err := l.Acquire(ctx, key, o)
		if err != nil {
			for _, held := range slices.Backward(leases) {
				_ = held.Release(ctx) // what it does not give back, its TTL frees
			}
			return nil, fmt.Errorf("lock: acquire all: key %d of %d: %w", len(leases)+1, len(keys), err)
		}
		leases = append(leases, lease)
		ctx = lease.Context()
		o = o.WaitUntil(deadline)
	}
	return leases, nil
}
