package redislock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/reqlock/reqlock/middleware/lock"
)

// Acquire holds key: see [lock.Locker].
func (l *Locker) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	if key == "" {
		return nil, errors.New("redislock: empty key")
	}
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("redislock: %w", err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	o = o.WithDefaults()
	if o.Wait == 0 {
		return l.tryOnce(ctx, key, o)
	}
	return l.wait(ctx, key, o)
}

// wait queues behind the other callers of this process, then asks Redis until
// the lock is ours or the time is up.
func (l *Locker) wait(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	deadline := time.Now().Add(o.Wait)
	s := l.newLease(key, o)
	turn, err := l.turns.Enter(ctx, key, s, o.Wait, o.MaxQueue)
	if err != nil {
		return nil, err
	}
	s.turn = turn
	var pauses backoff
	for {
		left, err := l.ask(ctx, s)
		if err != nil {
			return nil, s.fail(err)
		}
		if s.granted {
			return l.hold(ctx, s)
		}
		rest := time.Until(deadline)
		if rest <= 0 {
			turn.Pass()
			return nil, &lock.BusyError{Err: lock.ErrBusy, Ahead: 1}
		}
		if err := l.sleep(ctx, min(pauses.pause(left), rest)); err != nil {
			if errors.Is(err, lock.ErrUnavailable) {
				return nil, s.fail(err)
			}
			turn.Pass()
			return nil, err
		}
	}
}

func (l *Locker) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.closed:
		return errClosed
	}
}

// fail ends the turn of a caller that got no answer. Those who wait behind it
// get its failure: they would find out the same, one after the other, and the
// last of them after its whole wait.
func (s *lease) fail(err error) error {
	s.turn.Fail(err)
	s.answer(err)
	return err
}

// answer lets go those who wait for the first answer to this caller.
func (s *lease) answer(err error) {
	select {
	case <-s.answered:
	default:
		s.failed = err
		close(s.answered)
	}
}

// ask asks for the lock, within little more than opTimeout. Where that sets
// s.granted it is ours; left is what another holder's lease has left.
func (l *Locker) ask(ctx context.Context, s *lease) (left time.Duration, err error) {
	s.mutex = l.redsync.NewMutex(s.names.lock, mutexOptions{s})
	q := &question{parent: ctx, lease: s, op: acquire}
	late := q.put(s.mutex.TryLockContext)
	s.dirty = s.dirty || q.lost
	switch {
	case q.answer == yes && late == nil:
		s.granted, s.fence, s.until = true, q.fence, s.mutex.Until()
		s.answer(nil)
		return 0, nil
	case q.answer == others:
		s.answer(nil)
		return q.left, nil
	case q.answer == yes:
		q.err = errors.New("the lock was granted after more than its TTL")
	}
	if s.dirty || q.answer == yes {
		l.leaves.add(s)
	}
	return 0, unavailable(q.err)
}

// mutexOptions are redsync's for the mutex of a lease, as one.
type mutexOptions struct{ *lease }

func (o mutexOptions) Apply(m *redsync.Mutex) {
	redsync.WithExpiry(o.ttl).Apply(m)
	redsync.WithTimeoutFactor(float64(opTimeout) / float64(o.ttl)).Apply(m)
	redsync.WithGenValueFunc(func() (string, error) { return o.token, nil }).Apply(m)
}

// hold makes a lease of what Redis granted.
func (l *Locker) hold(ctx context.Context, s *lease) (lock.Lease, error) {
	s.ctx, s.cancel = context.WithCancelCause(lock.NewContext(ctx, s))
	if !l.renewals.add(s) {
		s.Release(ctx)
		return nil, errClosed
	}
	if ctx.Err() != nil {
		s.Release(ctx)
		return nil, context.Cause(ctx)
	}
	return s, nil
}
