// Package memlock is a [lock.Locker] inside one process: for tests, for a
// service that runs as a single process, and as what a guard falls back to.
// It excludes nobody outside the process.
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
//   - There are no goroutines, nothing to close, and nothing is kept for a key
//     that is free.
package memlock

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/reqlock/reqlock/internal/turn"
	"github.com/reqlock/reqlock/middleware/lock"
)

// A Locker excludes the goroutines of one process from each other. Make one
// with [New]; all methods may be called concurrently.
type Locker struct {
	queue turn.Queue[*lease]
	fence atomic.Uint64 // of the newest lease of any key
}

var _ lock.Locker = (*Locker)(nil)

// New returns a Locker of its own: two of them exclude nobody from each other.
func New() *Locker { return new(Locker) }

// Acquire is as [lock.Locker] says. It never returns ErrUnavailable.
func (l *Locker) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if key == "" {
		return nil, errEmptyKey
	}
	o = o.WithDefaults()

	// The context exists before the turn comes, so that Interrupt finds it in
	// whatever lease is at the head.
	s := new(lease)
	inner, cancel := context.WithCancelCause(ctx)
	s.ctx, s.cancel = lock.NewContext(inner, s), cancel
	t, err := l.queue.Enter(ctx, key, s, o.Wait, o.MaxQueue)
	if err != nil {
		cancel(err)
		return nil, err
	}
	s.turn, s.key, s.fence = t, key, l.nextFence()
	return s, nil
}

var errEmptyKey = errors.New("memlock: acquire: the key is empty")

// Interrupt is as [lock.Locker] says: at once, and without an error.
func (l *Locker) Interrupt(_ context.Context, key string) (bool, error) {
	s, ok := l.queue.Head(key)
	if ok {
		s.cancel(lock.ErrInterrupted)
	}
	return ok, nil
}

// nextFence returns the greater of the last fence + 1 and the time in
// microseconds, which stays below 1<<53 until the year 2255.
func (l *Locker) nextFence() uint64 {
	now := uint64(time.Now().UnixMicro())
	for {
		last := l.fence.Load()
		next := max(last+1, now)
		if l.fence.CompareAndSwap(last, next) {
			return next
		}
	}
}
