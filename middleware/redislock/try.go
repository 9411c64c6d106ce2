package redislock

import (
	"context"
	"errors"

	"github.com/reqlock/reqlock/middleware/lock"
)

// errLeft tells those who share a round trip, or wait for its outcome, that who
// makes it has gone.
var errLeft = errors.New("redislock: the caller that asked has left")

// tryOnce answers a caller that wants only yes or no. Callers that come before
// the acquire is sent share it: one of them may get the lock, which is a no to
// the others. Who comes later asks anew, since the reply may be older than its
// call.
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
	if err := l.enterAlone(ctx, s); err != nil {
		return err
	}
	a, err := l.backend.ask(ctx, s, callTimeout)
	if err != nil {
		return s.end(err)
	}
	if a.code == granted {
		_, err := l.hold(ctx, s, a)
		return err
	}
	if a.kept {
		return s.end(keptBack(a))
	}
	busy := l.busy(s.key)
	s.giveUp()
	s.announce(nil) // whoever waits for it finds the turn passed on
	return busy
}

// enterAlone takes the turn where nobody has it. Of whoever has it, the first
// reply of Redis says how the lock stands.
func (l *Locker) enterAlone(ctx context.Context, s *lease) error {
	for {
		turn, err := l.turns.Enter(ctx, s.key, s, 0, 0)
		if err == nil {
			s.turn = turn
			return nil
		}
		head, ok := l.turns.Head(s.key)
		switch {
		case !errors.Is(err, lock.ErrBusy):
			return err
		case !ok:
			continue // it has just left
		}
		heard, err := l.hear(ctx, head)
		switch {
		case err != nil:
			return err
		case !heard:
			return l.busy(s.key)
		case head.failed == errLeft:
			continue
		case head.failed != nil:
			return head.failed
		case !head.try, head.won: // in this order: see lease.announced
			return l.busy(s.key)
		}
		// It was a try as well, was told no and has left.
	}
}

func (l *Locker) busy(key string) error {
	return &lock.BusyError{Err: lock.ErrBusy, Ahead: max(1, l.turns.Ahead(key))}
}
