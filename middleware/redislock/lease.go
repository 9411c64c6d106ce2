package redislock

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/reqlock/reqlock/internal/turn"
	"github.com/reqlock/reqlock/middleware/lock"
)

// A lease is one call of Acquire, from its arrival on; with the lock's token in
// hand it is a lock.Lease.
type lease struct {
	locker   *Locker
	key      string
	names    names
	token    string
	ttl      time.Duration
	try      bool // wants only yes or no
	arrived  time.Time
	deadline time.Time // it waits until then
	maxQueue int       // most that may wait before it in Redis; 0: no limit

	mutex     *redsync.Mutex
	turn      *turn.Turn[*lease]
	placed    bool          // it has a place in Redis' queue
	uncertain bool          // an acquire of this token has no reply, and may still arrive
	missing   []atomic.Bool // members of a quorum that do not have the lock, as far as they have said
	unsettled *atomic.Int32 // how many members of a quorum such an acquire may still arrive at; may be nil

	mode    string          // try, wait or poll, for acquire.lua; here, since what is sent are pointers
	inbox   string          // where it hears of a grant; "": it asks
	changed <-chan struct{} // closed when that may have been interrupted since
	listens *inbox          // where it is registered for that
	grants  chan uint64     // brings the fence of the newest grant that the inbox heard of

	// Whoever had the turn before may have entered this caller in Redis, or passed
	// its lease on to it, and has left the answer: see succession and tenure.
	succession atomic.Int32
	offered    answer
	tenure     tenure // of which it is the newest holder

	// announced is closed when Redis has replied for the first time, or has
	// failed to. Tries that find this caller ahead wait for it. What it
	// announces is set before; a caller that waits may win after.
	announced chan struct{}
	won       bool
	failed    error

	ctx    context.Context
	cancel context.CancelCauseFunc
	fence  uint64
	since  time.Time // when the lease was passed on to it; zero: it was not

	renewal // guarded by its scheduler

	release  sync.Once
	released error
}

func (l *Locker) newLease(key string, o lock.Options) *lease {
	l.longestTTL.used(o.TTL)
	now := time.Now()
	return &lease{
		locker:    l,
		key:       key,
		names:     namesOf(l.prefix, key),
		token:     rand.Text(),
		ttl:       o.TTL,
		try:       o.Wait == 0,
		arrived:   now,
		deadline:  now.Add(o.Wait),
		announced: make(chan struct{}),
	}
}

func (s *lease) Key() string              { return s.key }
func (s *lease) Fence() uint64            { return s.fence }
func (s *lease) Context() context.Context { return s.ctx }

func (s *lease) Release(ctx context.Context) error {
	s.release.Do(func() { s.released = s.giveBack(ctx) })
	return s.released
}

func (s *lease) giveBack(ctx context.Context) error {
	// No extension is sent from here on, and none is on its way: an extension
	// that overtakes the release would not harm the lock, but nobody who reads
	// a trace should have to know that.
	until, lost := s.locker.renewals.remove(s)
	s.cancel(lock.ErrReleased)
	defer s.turn.Pass()
	if lost != nil {
		// The last extension may have arrived all the same.
		s.locker.backend.abandon(s, tombstone(s.ttl))
		return lost
	}
	if s.passOn(until) {
		return nil
	}
	return s.locker.backend.unlock(ctx, s, until)
}

// unlock also enters who waits behind in this process.
func (h *homes) unlock(ctx context.Context, s *lease, until time.Time) error {
	// A lease that is over is in no hurry: it runs out by itself.
	patience := max(callTimeout, min(time.Until(until), 4*opTimeout))
	c := &call{lease: s, result: result{op: release}}
	if ctx.Done() != nil { // otherwise the caller has seen to it
		ctx = context.WithoutCancel(ctx)
	}
	if err := c.do(ctx, h, patience); err != nil {
		h.abandon(s, tombstone(s.ttl))
		return unavailable(err)
	}
	given, _ := s.mutex.UnlockContext((*verdict)(&c.result))
	if c.next != nil {
		c.next.home = c.server
		c.next.offered = c.answer
		c.next.placed = true
		c.next.uncertain = c.uncertain || c.answer.code == 0
	}
	valid := c.began.Before(until)
	switch {
	case given:
		return nil
	case !c.outcome.known():
		h.abandon(s, tombstone(s.ttl))
		return unavailable(c.err)
	case valid && c.uncertain:
		return nil // the attempt that had no reply has done it
	case valid && c.outcome == notOurs:
		return lock.ErrStolen
	default:
		return lock.ErrExpired
	}
}

// lose ends the leases of holders that did not give them back. The scheduler has
// let go of them before. The observer is told last: it may take its time.
func (l *Locker) lose(leases []*lease) {
	for _, s := range leases {
		s.cancel(s.lost)
		s.turn.Pass()
	}
	for _, s := range leases {
		l.observe(s.ctx, lock.Lost{Key: s.key, Fence: s.fence, Err: s.lost})
	}
}
