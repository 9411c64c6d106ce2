package redislock

import (
	"math/rand/v2"
	"time"
)

// A tenure is the time for which one token holds a lock. While others of its
// process wait, a holder that is done need not give the lock back: it passes the
// token on to who is next, which costs nothing, and each of them has a fence of
// its own, from the block that came with the lock. That goes on for a few
// holders and a short while, or who waits in other processes would starve.
type tenure struct {
	began  time.Time // when the first holder got it
	passes int       // so far
}

const (
	maxTenure      = 25 * time.Millisecond // no lease is passed on when it is older
	defaultHandoff = 16                    // holders of one tenure, at most
	maxHandoff     = 64                    // the block of fences in fence.lua
)

// passOn passes the lease, which is trusted until then, on to the next caller,
// and says whether there is one that it fits. Should that caller leave at this
// moment, it gives up the token: see succession.
func (s *lease) passOn(until time.Time) bool {
	l := s.locker
	now := time.Now()
	done := s.tenure.passes+1 >= l.handoff || now.Sub(s.tenure.began) >= maxTenure
	if done || until.Sub(now) < s.ttl/3 || l.isClosed() { // a third: see contend
		return false
	}
	next, ok := l.turns.Next(s.key)
	if !ok || next.ttl != s.ttl {
		return false
	}
	next.token, next.uncertain, next.mutex = s.token, s.uncertain, s.mutex
	next.home, next.unsettled, next.missing, next.trip = s.home, s.unsettled, s.missing, s.trip
	next.tenure = tenure{s.tenure.began, s.tenure.passes + 1}
	// Not when s was due: while it was in line to be renewed that was the end.
	due := until.Add(-s.ttl*2/3 - s.trip - rand.N(s.ttl/15+1))
	next.offered = answer{code: granted, fence: s.fence + 1, sent: now, until: until, due: due}
	return next.succession.CompareAndSwap(waitingBehind, entered)
}
