package lock

import (
	"errors"
	"fmt"
	"time"
)

// What Acquire returns. Match with [errors.Is].
var (
	// ErrBusy: the key was held by somebody else for the whole wait.
	ErrBusy = errors.New("lock: held by somebody else")
	// ErrQueueFull: as many callers wait for the key as are allowed to.
	ErrQueueFull = errors.New("lock: too many are waiting")
	// ErrUnavailable: the backend could not be asked, or its answer is not known.
	ErrUnavailable = errors.New("lock: backend unavailable")
)

// Why the context of a lease ended, as [context.Cause] gives it. Match with
// [errors.Is]; ErrExpired and ErrStolen are also what Release returns.
var (
	// ErrLost: the lease is not held any more, and its holder did not give it
	// back. Both ErrExpired and ErrStolen match it.
	ErrLost = errors.New("lock: lease lost")
	// ErrExpired: the lease ran out before it was renewed or released.
	ErrExpired = fmt.Errorf("%w: it ran out", ErrLost)
	// ErrStolen: the key was seen in another's hands while the lease was valid.
	ErrStolen = fmt.Errorf("%w: the key is in another's hands", ErrLost)
	// ErrInterrupted: somebody called Interrupt for the key.
	ErrInterrupted = errors.New("lock: interrupted")
	// ErrMaxHold: the work took longer than it was allowed to.
	ErrMaxHold = errors.New("lock: held for too long")
	// ErrReleased: the holder gave the lease back.
	ErrReleased = errors.New("lock: released")
)

// A BusyError says how many were ahead of a caller that was turned away. It
// matches the Err it wraps: [ErrBusy] or [ErrQueueFull].
type BusyError struct {
	Err error
	// Ahead counts the holder and those waiting in this process before the
	// caller, at the time it was turned away. At least 1.
	Ahead int
}

func (e *BusyError) Error() string { return fmt.Sprintf("%v (%d ahead)", e.Err, e.Ahead) }
func (e *BusyError) Unwrap() error { return e.Err }

// An UnavailableError says when a backend that gives nothing can be expected to
// give again. It matches [ErrUnavailable], which Err wraps.
type UnavailableError struct {
	Err   error
	After time.Duration // from when the error was returned; positive
}

func (e *UnavailableError) Error() string { return fmt.Sprintf("%v (for another %v)", e.Err, e.After) }
func (e *UnavailableError) Unwrap() error { return e.Err }
