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
		return nil, errors.New("redislock: acquire: the key is empty")
	}
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("redislock: acquire: %w", err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
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

// wait queues behind the other callers of this process, then asks Redis until
// the lock is ours or the time is up.
func (l *Locker) wait(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	deadline := time.Now().Add(o.Wait)
	s := l.newLease(key, o)
	turn, err := l.turns.Enter(ctx, key, s, o.Wait, o.MaxQueue)
	if err != nil {
		return nil, l.headsFailure(ctx, key, err)
	}
	s.turn = turn
	var pauses backoff
	for {
		left, err := l.ask(ctx, s, max(time.Until(deadline), callTimeout))
		if err != nil {
			return nil, s.end(err)
		}
		s.announce(nil)
		if s.granted {
			return l.hold(ctx, s)
		}
		rest := time.Until(deadline)
		if rest <= 0 {
			s.giveUp()
			return nil, &lock.BusyError{Err: lock.ErrBusy, Ahead: 1}
		}
		err = l.sleep(ctx, min(pauses.pause(left), rest))
		if err != nil {
			return nil, s.end(err)
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
// to, as long as that takes with a connection at hand. false: head is still
// waiting for one, among many, and the server answers those.
func (l *Locker) hear(ctx context.Context, head *lease) (bool, error) {
	timer := time.NewTimer(callTimeout)
	defer timer.Stop()
	select {
	case <-head.announced:
		return true, nil
	case <-timer.C:
		if l.health.silent() > opTimeout {
			return false, errNoReplies
		}
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
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

// giveUp ends the turn of a caller that has not got the lock.
func (s *lease) giveUp() {
	if s.uncertain {
		s.locker.cleanup.add(s)
	}
	s.turn.Pass()
}

// end ends the turn of a caller that does not get the lock because of err. Of a
// backend that gives no reply those who wait behind it are told: they would find
// out the same, one after the other, and the last of them after its whole wait.
// That this caller has left, or got no connection, is no business of theirs.
func (s *lease) end(err error) error {
	if !errors.Is(err, lock.ErrUnavailable) {
		s.giveUp()
		s.announce(errLeft)
		return err
	}
	if s.uncertain {
		s.locker.cleanup.add(s)
	}
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

// ask asks for the lock. It waits for a connection at most for patience, since
// nothing is sent before there is one, and then takes as long as a call. Where it
// sets s.granted the lock is ours; left is what another holder's lease has left.
func (l *Locker) ask(ctx context.Context, s *lease, patience time.Duration) (left time.Duration, err error) {
	bound, err := l.ready(ctx, l.askSlots, patience)
	if err != nil {
		return 0, err
	}
	defer l.askSlots.give()
	s.mutex = l.redsync.NewMutex(s.names.lock, mutexOptions{s, bound})
	c := &call{parent: ctx, lease: s, op: acquire, bound: bound}
	err = c.do(s.mutex.TryLockContext)
	s.uncertain = s.uncertain || c.uncertain
	switch {
	case c.outcome == done && err == nil:
		s.granted, s.fence, s.until = true, c.fence, c.sent.Add(validFor(s.ttl))
		return 0, nil
	case c.outcome == notOurs:
		return c.left, nil
	case c.outcome == done:
		s.uncertain = true // it is ours, and must not be
		return 0, unavailable(errTooLate)
	default:
		return 0, unavailable(c.err)
	}
}

// mutexOptions are redsync's for the mutex of a lease, as one.
type mutexOptions struct {
	*lease
	bound time.Duration // of an acquire
}

func (o mutexOptions) Apply(m *redsync.Mutex) {
	redsync.WithExpiry(o.ttl).Apply(m)
	redsync.WithDriftFactor(drift).Apply(m)
	// redsync bounds an acquire by a part of the TTL, to which our bound has no
	// relation.
	redsync.WithTimeoutFactor(float64(o.bound) / float64(o.ttl)).Apply(m)
	redsync.WithGenValueFunc(func() (string, error) { return o.token, nil }).Apply(m)
}

// hold makes a lease of what Redis granted.
func (l *Locker) hold(ctx context.Context, s *lease) (lock.Lease, error) {
	s.ctx, s.cancel = context.WithCancelCause(lock.NewContext(ctx, s))
	if !l.renewals.add(s) {
		_ = s.Release(ctx)
		return nil, errClosed
	}
	if ctx.Err() != nil {
		_ = s.Release(ctx)
		return nil, context.Cause(ctx)
	}
	return s, nil
}
