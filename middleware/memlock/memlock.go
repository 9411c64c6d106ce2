// Package memlock is a [lock.Locker] inside one process: for tests, and for a
// service that runs as a single process. It excludes nobody outside of it.
//
// It keeps every promise of the contract in package lock, with these
// particulars:
//
//   - Nobody dies alone in a process, so nothing expires: Options.TTL is
//     checked and then means nothing, a lease is never lost, and Release
//     always returns nil. A holder that never releases keeps its key.
//   - Callers get a key strictly in order of arrival.
//   - Fences start from the clock, so that they go on rising when the process
//     restarts, as long as its clock does not go back by more than it was down.
//     See below for those beside another Locker.
//   - There are no goroutines, nothing to close, and nothing is kept for a key
//     that is free.
//
// # Beside another Locker
//
// As the fallback of a guard (middleware.WithFallback) it stands in for another Locker.
// A lease that is acquired with the context of the other one's lease on the key has the
// same fence. From these it learns by how much that clock, a Redis server's, is ahead of
// this process's or behind it, so that the fences that it gives out by itself are above
// those which that Locker gave to anybody before, and below those which it will give
// later. That is as exact as messages are quick, a millisecond or so. A process that
// has seen no such lease goes by its own clock; where a clock is set meanwhile, so are
// the fences.
package memlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/reqlock/reqlock/internal/turn"
	"github.com/reqlock/reqlock/middleware/lock"
)

// A Locker excludes the goroutines of one process from each other. Make one
// with [New]; all methods may be called concurrently.
type Locker struct {
	turns  turn.Queue[*lease]
	fences fences
}

var _ lock.Locker = (*Locker)(nil)

// New returns a Locker of its own: two of them exclude nobody from each other.
func New() *Locker { return new(Locker) }

// Acquire is as [lock.Locker] says. It never returns ErrUnavailable.
func (l *Locker) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	if key == "" {
		return nil, errors.New("memlock: acquire: the key is empty")
	}
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("memlock: acquire: %w", err)
	}
	o = o.WithDefaults()

	// The context exists before the turn comes, so that Interrupt finds it in
	// whatever lease is at the head.
	s := new(lease)
	inner, cancel := context.WithCancelCause(ctx)
	s.ctx, s.cancel = lock.NewContext(inner, s), cancel
	seen := take(ctx, key)
	t, err := l.turns.Enter(ctx, key, s, o.Wait, o.MaxQueue)
	if err != nil {
		cancel(err)
		return nil, err
	}
	s.turn, s.key, s.fence = t, key, l.fences.next(seen)
	return s, nil
}

// Interrupt is as [lock.Locker] says, at once.
func (l *Locker) Interrupt(_ context.Context, key string) (bool, error) {
	if key == "" {
		return false, errors.New("memlock: interrupt: the key is empty")
	}
	s, ok := l.turns.Head(key)
	if ok {
		s.cancel(lock.ErrInterrupted)
	}
	return ok, nil
}
