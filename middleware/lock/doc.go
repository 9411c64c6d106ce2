// Package lock is the contract between what needs a lock on a key and what
// provides one.
//
// A [Locker] gives out a [Lease] on a key to one caller at a time. What runs
// under a lease runs with [Lease.Context]: that context ends when the lease is
// lost, interrupted or released, and [context.Cause] says which. A lease also
// carries a fence: a number that rises with every lease of a key, for a
// resource that can refuse whoever comes with a smaller one than it has seen.
//
//	lease, err := locks.Acquire(ctx, key, lock.Options{Wait: 3 * time.Second})
//	if err != nil {
//		return err // ErrBusy, ErrQueueFull, ErrUnavailable or the cause of ctx
//	}
//	defer lease.Release(ctx)
//	return work(lease.Context(), lease.Fence())
//
// # Two Lockers
//
// redislock holds leases in Redis and excludes every process that shares the
// server; memlock excludes the goroutines of one process. Package locktest has
// the conformance suite that both pass and that an implementation of your own
// should pass.
//
// # What a lease is not
//
// A lease is bounded in time, since its holder may die. A holder that is
// suspended, a clock that jumps or a failover that forgets an acknowledged
// write can let two holders overlap; the fence is what lets the resource
// itself refuse the older of the two. Who needs more takes a consensus store.
//
// This package imports neither net/http nor a Redis client.
package lock
