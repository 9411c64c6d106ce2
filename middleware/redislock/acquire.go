package redislock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reqlock/reqlock/internal/turn"
	"github.com/reqlock/reqlock/middleware/lock"
)

// Acquire holds key: see [lock.Locker].
func (l *Locker) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	if key == "" {
		return nil, errors.New("redislock: acquire: the key is empty")
	}
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("redislock: acquire: %w", err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !l.enter() {
		return nil, errClosed
	}
	defer l.callers.Done()
	get := l.wait
	if o.Wait == 0 {
		get = l.tryOnce
	}
	lease, err := get(ctx, key, o.WithDefaults())
	switch {
	case err == nil:
		return lease, nil
	case ctx.Err() != nil: // whatever else there is to say
		return nil, context.Cause(ctx)
	default:
		return nil, err
	}
}

// wait queues behind the other callers of this process, then in Redis.
func (l *Locker) wait(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	s := l.newLease(key, o)
	t, err := l.turns.Enter(ctx, key, s, o.Wait, o.MaxQueue)
	if err != nil {
		s.retract()
		s.announce(errLeft) // its turn may have come, for a moment
		if err == turn.ErrQuit {
			return nil, errNoReplies
		}
		return nil, l.headsFailure(ctx, key, err)
	}
	s.turn = t
	if !t.Waited() {
		s.maxQueue = o.MaxQueue
	}
	lease, err := l.contend(ctx, s)
	if err != nil {
		return nil, s.end(err)
	}
	return lease, nil
}

// contend asks Redis until the lock is ours or the time is up.
func (l *Locker) contend(ctx context.Context, s *lease) (lock.Lease, error) {
	a := s.offered
	if a.code == granted && time.Until(a.until) < s.ttl/3 {
		a = answer{} // it finds its own lock, and arms the TTL again
		if s.tenure.passes > 0 {
			s.startOver() // with the fence of who had it first
		}
	}
	var pauses backoff
	for {
		var err error
		if a.code == 0 {
			a, err = l.backend.ask(ctx, s, max(time.Until(s.deadline), callTimeout))
			if err != nil {
				return nil, err
			}
		}
		if a.code == granted {
			return l.hold(ctx, s, a)
		}
		s.announce(nil)
		switch {
		case a.code == full:
			return nil, &lock.BusyError{Err: lock.ErrQueueFull, Ahead: 1 + a.before}
		case a.kept && (time.Until(s.deadline) <= 0 || a.sent.Add(a.left).After(s.deadline)): // there is no point in waiting
			return nil, keptBack(a)
		case time.Until(s.deadline) <= 0:
			return nil, &lock.BusyError{Err: lock.ErrBusy, Ahead: 1 + a.before}
		case a.code == subscribe:
			a, err = answer{}, l.backend.listen(ctx, s)
		default:
			a, err = l.await(ctx, s, a, &pauses)
		}
		if err != nil {
			return nil, err
		}
	}
}

// await waits until there is a reason to ask again, which is the zero answer, or
// until the lock is granted.
//
// The grant comes without a question of ours, and yet it is known how long the
// lease lasts at least. Just before the newest question that was answered "not
// yet" was sent, the lock was not ours; a grant with a fence above all that had
// been given out by then came after, so the TTL was armed after that. An older
// one is a message that was late: it may long have run out.
func (l *Locker) await(ctx context.Context, s *lease, a answer, pauses *backoff) (answer, error) {
	again := a.sent.Add(s.askEvery(a))
	if s.inbox == "" {
		again = time.Now().Add(min(pauses.pause(a.left), s.ttl/3))
	}
	outage := l.backend.outage(s.names.lock)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(time.Until(earliest(again, s.deadline, l.backend.silentAt(s))))
		select {
		case fence := <-s.grants:
			switch {
			case fence == noFence:
				return answer{}, nil
			case fence <= a.fence:
				continue
			}
			g := s.grantedAfter(a.sent, fence)
			if time.Until(g.until) < s.ttl/3 {
				return answer{}, nil // it finds its own lock, and arms the TTL again
			}
			return g, nil
		case <-timer.C:
			now := time.Now()
			if !now.Before(s.deadline) || !now.Before(again) || l.backend.claimSilence(s, now) {
				return answer{}, nil
			}
		case <-s.changed:
			return answer{}, nil
		case <-outage:
			return answer{}, errNoReplies
		case <-ctx.Done():
			return answer{}, context.Cause(ctx)
		case <-l.closed:
			return answer{}, errClosed
		}
	}
}

// headsFailure returns err, why a caller has not got its turn, unless the one
// whose turn it is has not heard of Redis yet and then does not: what looks
// like contention is an outage where Wait is shorter than it takes to notice.
func (l *Locker) headsFailure(ctx context.Context, key string, err error) error {
	head, ok := l.turns.Head(key)
	if !ok || !errors.Is(err, lock.ErrBusy) {
		return err
	}
	heard, gone := l.hear(ctx, head)
	switch {
	case gone != nil:
		return gone
	case heard && head.failed != nil && head.failed != errLeft:
		return head.failed
	default:
		return err
	}
}

// hear waits until Redis has replied to head for the first time, or has failed
// to, as long as that takes once it is sent. false: head is still waiting for a
// trip, among many, and the server answers those.
func (l *Locker) hear(ctx context.Context, head *lease) (bool, error) {
	outage := l.backend.outage(head.names.lock)
	select {
	case <-outage:
		return false, errNoReplies
	default:
	}
	timer := time.NewTimer(callTimeout)
	defer timer.Stop()
	select {
	case <-head.announced:
		return true, nil
	case <-timer.C:
		return false, nil
	case <-outage:
		return false, errNoReplies
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-l.closed:
		return false, errClosed
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

// giveUp ends the turn of a caller that has not got the lock, and takes it out
// of Redis' queue.
func (s *lease) giveUp() {
	s.leaveBehind()
	s.turn.Pass()
}

// leaveBehind has what Redis may know of a caller that has not got the lock
// cleaned up.
func (s *lease) leaveBehind() {
	s.locker.backend.unregister(s)
	if s.placed || s.uncertain {
		s.locker.backend.abandon(s, s.tombstoneFor())
	}
}

// end ends the turn of a caller that does not get the lock because of err. Of a
// backend that gives no reply those who wait behind it are told: they would find
// out the same, one after the other, and the last of them after its whole wait.
// That this caller has left, or found no trip, is no business of theirs, and
// after a restart they may be willing to wait for longer.
func (s *lease) end(err error) error {
	if !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, errKeptBack) {
		s.giveUp()
		s.announce(errLeft)
		return err
	}
	s.leaveBehind()
	s.turn.Fail(err)
	s.announce(err)
	return err
}

// announce lets go those who wait for the first reply to this caller.
func (s *lease) announce(err error) {
	select {
	case <-s.announced:
	default:
		s.failed = err
		close(s.announced)
	}
}

// hold makes a lease of what Redis granted.
func (l *Locker) hold(ctx context.Context, s *lease, a answer) (lock.Lease, error) {
	l.backend.unregister(s)
	if s.mutex == nil { // granted without a question
		s.mutex = l.redsync.NewMutex(s.names.lock, mutexOptions{s})
	}
	if s.tenure.passes == 0 {
		s.tenure.began = time.Now()
	} else {
		s.since = a.sent
	}
	s.fence, s.until, s.due = a.fence, a.until, a.due
	s.ctx, s.cancel = context.WithCancelCause(lock.NewContext(ctx, s))
	s.won = true
	s.announce(nil)
	var err error
	switch {
	case !l.renewals.add(s):
		err = errClosed
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	default:
		return s, nil
	}
	_ = s.Release(ctx)
	s.placed, s.uncertain = false, false // the token is given up, or the next caller's by now
	return nil, err
}
