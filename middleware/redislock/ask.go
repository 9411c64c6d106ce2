package redislock

import (
	"context"
	"crypto/rand"
	"time"
)

func (h *homes) ask(ctx context.Context, s *lease, patience time.Duration) (answer, error) {
	for {
		c := &call{lease: s, result: result{op: acquire}}
		if err := c.do(ctx, h, patience); err != nil {
			return answer{}, err
		}
		s.home = c.server
		s.uncertain = s.uncertain || c.uncertain
		a := c.answer
		switch {
		case c.outcome == notOurs:
			if a.inQueue() {
				s.placed, s.maxQueue = true, 0 // who was let in stays in
			}
			return a, nil
		case c.outcome != done:
			return a, unavailable(c.err)
		case c.restarts != c.server.restarts.count.Load():
			// Granted without regard to a restart that is known by now.
			s.startOver()
			patience = callTimeout // it has waited already
			continue
		}
		s.mutex = h.locker.redsync.NewMutex(s.names.lock, mutexOptions{s})
		if err := s.mutex.TryLockContext((*verdict)(&c.result)); err != nil || c.tooLate() {
			s.uncertain = true // it is ours, and must not be
			return a, unavailable(errTooLate)
		}
		a.until = a.sent.Add(validFor(s.ttl))
		a.due = s.nextRenewal(a.sent)
		return a, nil
	}
}

// startOver gives up the token and goes on with another.
func (s *lease) startOver() {
	s.locker.backend.unregister(s)
	s.locker.backend.abandon(s, tombstone(s.ttl))
	s.token, s.mutex = rand.Text(), nil
	s.placed, s.uncertain, s.tenure = false, false, tenure{}
}
