package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What the zero values in [Options] stand for, and the bounds of a TTL.
const (
	DefaultTTL      = 10 * time.Second
	DefaultMaxQueue = 128
	MinTTL          = 50 * time.Millisecond // below it a renewal is not dependably quicker than the TTL
	MaxTTL          = 24 * time.Hour        // it is what a crash costs; longer is a mistake
)

// A Locker gives out leases on keys, to one holder per key at a time.
//
// An implementation keeps these promises (package locktest checks them):
//
//   - At most one lease of a key is valid at any time, whatever callers do.
//   - Callers of one process that wait for a key get it in order of arrival.
//   - Acquire returns within Options.Wait plus a bound of its own that depends
//     neither on the TTL nor on how many others wait, also where its backend
//     hangs. It returns within that bound, too, once ctx is done; then
//     nothing of the call is left: no lease, no place in the queue.
//   - An Acquire with no Wait neither joins a queue nor overtakes one.
//   - A backend that cannot be asked, or whose answer is not known, is
//     ErrUnavailable, never ErrBusy, also for those queued behind the failure.
//   - A lease that was lost is never silently taken again.
//
// All methods may be called concurrently. Keys are any non-empty bytes; two
// different ones never share a lock.
type Locker interface {
	// Acquire waits until the key is free, at most Options.Wait, and holds it.
	//
	// Errors are to be matched with [errors.Is]: [ErrBusy] (held by somebody
	// else for as long as the call was willing to wait), [ErrQueueFull] (too
	// many wait already), [ErrUnavailable], or the cause of ctx, where ctx was
	// done: that is never ErrBusy. The first two come as a [*BusyError], the third
	// as an [*UnavailableError] where it is known how long that will last.
	// Options that [Options.Check] refuses, and an empty key, are errors that
	// match none of these.
	Acquire(ctx context.Context, key string, o Options) (Lease, error)

	// Interrupt ends the context of the key's holder with [ErrInterrupted], in
	// whatever process the holder is. It reports whether somebody held the
	// key. The lease stays with its holder, and is renewed, until the holder
	// releases it: an interrupt asks somebody to stop, it takes nothing away.
	//
	// Errors are ErrUnavailable, the cause of ctx, and one that matches neither
	// for an empty key.
	Interrupt(ctx context.Context, key string) (bool, error)
}

// Options say how a key is to be acquired. The zero value is usable: a TTL of
// [DefaultTTL] and one try.
type Options struct {
	// TTL is how long the key stays held after its holder has died. It is
	// renewed at a third of that while the lease is held, so it bounds the
	// recovery from a crash and not the work. 0: DefaultTTL; from MinTTL to
	// MaxTTL.
	TTL time.Duration

	// Wait is how long to wait for a held key. 0: one try, with no place in
	// the queue; otherwise at least a millisecond. It is independent of TTL.
	Wait time.Duration

	// MaxQueue is how many callers of one process may wait for one key; one
	// more gets ErrQueueFull at once. The caller that is next, and asks the
	// backend for a key which another process holds, does not count. 0:
	// DefaultMaxQueue. It means nothing where Wait is 0.
	MaxQueue int
}

// Check returns every problem of o at once, joined, or nil.
func (o Options) Check() error {
	var errs []error
	if o.TTL != 0 && (o.TTL < MinTTL || o.TTL > MaxTTL) {
		errs = append(errs, fmt.Errorf("lock: TTL of %v: must be 0 for the default of %v, or from %v to %v", o.TTL, DefaultTTL, MinTTL, MaxTTL))
	}
	if o.Wait > 0 && o.Wait < time.Millisecond {
		errs = append(errs, fmt.Errorf("lock: Wait of %v is as good as none: is the unit missing? 0 is a single try", o.Wait))
	}
	if o.Wait < 0 {
		errs = append(errs, fmt.Errorf("lock: Wait of %v: must be 0 for a single try, or positive", o.Wait))
	}
	if o.MaxQueue < 0 {
		errs = append(errs, fmt.Errorf("lock: MaxQueue of %d: must be 0 for the default of %d, or positive", o.MaxQueue, DefaultMaxQueue))
	}
	return errors.Join(errs...)
}

// WithDefaults returns o with its zero values replaced by what they stand
// for. An implementation calls it after Check.
func (o Options) WithDefaults() Options {
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.MaxQueue == 0 {
		o.MaxQueue = DefaultMaxQueue
	}
	return o
}

// WaitUntil returns o with what is left of Wait until a deadline, for one of several
// calls that are to take no longer together: less than a millisecond is a single try.
func (o Options) WaitUntil(deadline time.Time) Options {
	if o.Wait = time.Until(deadline); o.Wait < time.Millisecond {
		o.Wait = 0
	}
	return o
}

// A Lease is a key in one holder's hands. All methods may be called
// concurrently.
type Lease interface {
	// Key is the key as it was given to Acquire.
	Key() string

	// Fence is greater than the fence of any earlier lease of the key, and
	// less than 1<<53, so that it survives JSON and floating point. 0: this
	// Locker cannot fence.
	Fence() uint64

	// Context is a child of the context given to Acquire. It ends, besides
	// with its parent, when the lease is lost, interrupted or released;
	// [context.Cause] then matches ErrLost, ErrInterrupted or ErrReleased; the
	// lease in a guarded request also ends with ErrMaxHold.
	// It ends before the key can be somebody else's, as far as this process's
	// monotonic clock can tell. [From] finds the lease in it.
	Context() context.Context

	// Release gives the key back and ends Context with ErrReleased. It does so
	// even where ctx is done, within a bound of its own: ctx only carries
	// values. It deletes nobody else's lock.
	//
	// It returns nil, [ErrExpired] or [ErrStolen] where the lease was lost
	// before, or [ErrUnavailable] where the backend did not acknowledge: the
	// Locker then goes on trying, and the TTL frees the key at the latest.
	// Calls after the first return what the first returned.
	Release(ctx context.Context) error
}
