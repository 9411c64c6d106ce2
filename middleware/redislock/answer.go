package redislock

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"
)

// An answer is what Redis has said to a caller that wants the lock. The zero
// value is none: it has to be asked.
type answer struct {
	code code
	sent time.Time // before the question was; the lock was not the caller's then, unless it is granted

	fence  uint64        // its own where granted, otherwise the highest given out
	left   time.Duration // until the holder's lease runs out; negative: never
	before int           // how many wait before it
	kept   bool          // nobody holds the lock: it is kept back after a restart
	until  time.Time     // where granted: the lease is trusted until then
	due    time.Time     // where granted: when to renew it
}

// A code is what acquire.lua replies first, see there.
type code int64

const (
	granted code = iota + 1
	held
	queued
	subscribe
	full
)

func (a answer) inQueue() bool { return a.code == queued || a.code == subscribe }

// readAnswer reads a reply of acquire.lua, or the second part of one of
// leave.lua.
func readAnswer(reply []any, sent time.Time) (answer, error) {
	a := answer{code: code(integer(reply, 0)), sent: sent, fence: uint64(integer(reply, 1))}
	switch {
	case a.code == granted && a.fence > 0:
		return a, nil
	case a.code > granted && a.code <= full && len(reply) >= 3:
		a.left = time.Duration(integer(reply, 2)) * time.Millisecond
		a.before = int(integer(reply, 3))
		a.kept = integer(reply, 4) == 1
		return a, nil
	default:
		return answer{}, fmt.Errorf("acquire script replied %v", reply)
	}
}

// grantedAfter says that the lock is the caller's, with this fence, by something
// that happened after a question sent at that time.
func (s *lease) grantedAfter(sent time.Time, fence uint64) answer {
	return answer{
		code:  granted,
		fence: fence,
		sent:  sent,
		until: sent.Add(validFor(s.ttl)),
		// The question may be a third of the TTL old; nearly as much is left
		// for what has to be tried again.
		due: sent.Add(s.ttl / 2),
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
	redsync.WithValue(o.token).Apply(m) // a grant comes without an acquire
}

// ask asks for the lock. It waits for a connection at most for patience, since
// nothing is sent before there is one, and then takes as long as a call.
func (l *Locker) ask(ctx context.Context, s *lease, patience time.Duration) (answer, error) {
	bound, err := l.ready(ctx, l.askSlots, patience)
	if err != nil {
		return answer{}, err
	}
	defer l.askSlots.give()
	for {
		s.mutex = l.redsync.NewMutex(s.names.lock, mutexOptions{s, bound})
		c := &call{parent: ctx, lease: s, op: acquire, bound: bound}
		err = c.do(s.mutex.TryLockContext)
		s.uncertain = s.uncertain || c.uncertain
		a := c.answer
		switch {
		case c.outcome == notOurs:
			if a.inQueue() {
				s.queued, s.maxQueue = true, 0 // who was let in stays in
			}
			return a, nil
		case c.outcome != done:
			return a, unavailable(c.err)
		case c.restarts != l.restarts.count.Load():
			// Granted without regard to a restart that is known by now.
			s.startOver()
		case err != nil:
			s.uncertain = true // it is ours, and must not be
			return a, unavailable(errTooLate)
		default:
			a.until = a.sent.Add(validFor(s.ttl))
			a.due = s.nextRenewal(a.sent)
			return a, nil
		}
	}
}

// startOver gives up the token and goes on with another.
func (s *lease) startOver() {
	s.locker.inbox.forget(s)
	s.locker.cleanup.add(s, tombstone(s.ttl))
	s.token = rand.Text()
	s.queued, s.uncertain = false, false
}
