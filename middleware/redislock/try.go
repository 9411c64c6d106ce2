package redislock

import (
	"context"
	"errors"
	"runtime"

	"github.com/reqlock/reqlock/middleware/lock"
)

// errLeft tells those who shared a question that its asker has gone.
var errLeft = errors.New("redislock: the asker left")

// tryOnce answers a caller that wants only yes or no. Callers that come before
// the question is sent share it: one of them may get the lock, which is a no to
// the others. Who comes later asks anew, since the answer may be older than
// its call.
func (l *Locker) tryOnce(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	for {
		var s *lease // set where this caller is the one that asks
		_, err, _ := l.tries.Do(key, func() (any, error) {
			s = l.newLease(key, o)
			err := l.try(ctx, s)
			if err != nil && ctx.Err() != nil {
				return nil, errLeft
			}
			return nil, err
		})
		switch {
		case s != nil && err == nil:
			return s, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil:
			return nil, l.busy(key)
		case !errors.Is(err, errLeft):
			return nil, err
		}
	}
}

// try asks once, unless somebody of this process is ahead. It never overtakes
// a queue and never joins one.
func (l *Locker) try(ctx context.Context, s *lease) error {
	for {
		turn, err := l.turns.Enter(ctx, s.key, s, 0, 0)
		if err == nil {
			s.turn = turn
			break
		}
		if !errors.Is(err, lock.ErrBusy) {
			return err
		}
		head, ok := l.turns.Head(s.key)
		if !ok {
			continue
		}
		select {
		case <-head.answered:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if head.failed != nil {
			return head.failed
		}
		if !head.try || head.granted { // a waiter's granted may be changing
			return l.busy(s.key)
		}
		// It was a try as well, its answer was no, and it is about to leave.
		runtime.Gosched()
	}
	if _, err := l.ask(ctx, s); err != nil {
		return s.fail(err)
	}
	if s.granted {
		_, err := l.hold(ctx, s)
		return err
	}
	defer s.turn.Pass()
	return l.busy(s.key)
}

func (l *Locker) busy(key string) error {
	return &lock.BusyError{Err: lock.ErrBusy, Ahead: max(1, l.turns.Ahead(key))}
}
