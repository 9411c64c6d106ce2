package redislock

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// maxExtending is how many trips with extensions are under way at once. As many
// connections are kept free for them.
const maxExtending = 4

// renewals keeps the leases of a Locker alive: one goroutine for all of them,
// woken by the lease that is due next, and a few more while something is being
// sent. It also ends a lease that could not be renewed in time, by the
// monotonic clock, whatever its extension is doing.
type renewals struct {
	mu       sync.Mutex
	due      dueHeap
	wakes    time.Time // when the scheduler looks by itself
	closed   bool
	wake     chan struct{}
	finished sync.WaitGroup
}

// A line is of leases that are extended together; the mutex of renewals guards it.
type line struct {
	extendAll func(batch []*lease) // in one trip, the first being the most urgent

	ready   untilHeap // the most urgent first
	sending int       // goroutines that work on it
}

// renewal is the part of a lease that the scheduler looks after; its mutex
// guards it once the lease has been added.
type renewal struct {
	home      *server       // that has the key, as far as is known; nil: several have
	index     int           // in the heap, 1 for the first; 0: not there
	due       time.Time     // when to look at it next
	until     time.Time     // the lease is trusted until then
	extending chan struct{} // closed when the extension on its way has ended
	trip      time.Duration // what the newest answer about it took
	inLine    bool          // it is ready in its line
	lost      error
}

func newRenewals() *renewals {
	r := &renewals{wake: make(chan struct{}, 1)}
	r.finished.Go(r.run)
	return r
}

// add takes a lease that has just been granted. false: it is too late, the
// Locker is closed.
func (r *renewals) add(s *lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		s.lost = errNotRenewed
		return false
	}
	heap.Push(&r.due, s)
	r.wakeFor(s)
	return true
}

// nextRenewal returns when to extend a lease whose TTL was armed by what was sent
// at start and has just been answered: so that the answer comes at a third of
// the TTL if it takes as long as this one did, or a fifth of that earlier, at
// random, since leases that began together are not to come together for ever.
// Where a round trip takes more than a sixth of the TTL that is at once; such a
// lease has no time to lose. It may come a little earlier: see soon.
func (s *lease) nextRenewal(start time.Time) time.Time {
	s.trip = time.Since(start)
	third := s.ttl / 3
	return start.Add(third - s.trip - rand.N(third/5+1))
}

// remove takes a lease out that is to be released, waits for an extension that
// is on its way, as long as a call takes, and says how the lease stands.
func (r *renewals) remove(s *lease) (until time.Time, lost error) {
	r.mu.Lock()
	r.drop(s)
	extending := s.extending
	r.mu.Unlock()
	if extending != nil {
		<-extending
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.lost == nil && !time.Now().Before(s.until) {
		s.lost = lock.ErrExpired
	}
	return s.until, s.lost
}

// interrupt tells the holder of s to stop, and says whether there is one.
func (r *renewals) interrupt(s *lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.index == 0 {
		return false
	}
	s.cancel(lock.ErrInterrupted)
	return true
}

// hurry has leases extended now: those on a server, or all where on is nil.
func (r *renewals) hurry(on *server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, s := range r.due {
		if (on == nil || s.home == on || s.home == nil) && !s.beingExtended() {
			s.due = now
		}
	}
	heap.Init(&r.due)
	r.poke()
}

func (s *lease) beingExtended() bool { return s.inLine || s.extending != nil }

// soon says whether s, which is not due yet, is extended together with one that is:
// within a hundredth of the TTL a shared trip is cheaper than one for each of many.
func (s *lease) soon(now time.Time) bool {
	return !s.beingExtended() && now.Add(s.ttl/100).After(s.due)
}

func (r *renewals) drop(s *lease) {
	if s.index != 0 {
		heap.Remove(&r.due, s.index-1)
	}
}

// postpone sets when to look at the lease next.
func (r *renewals) postpone(s *lease, due time.Time) {
	s.due = due
	heap.Fix(&r.due, s.index-1)
}

// wakeFor has the scheduler look in time for s. Most leases are given back before
// they are due, and do not wake it.
func (r *renewals) wakeFor(s *lease) {
	if s.due.Before(r.wakes) {
		r.poke()
	}
}

func (r *renewals) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *renewals) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-r.wake:
		}
		expired, next, closed := r.look(time.Now())
		if len(expired) > 0 {
			expired[0].locker.lose(expired)
		}
		if closed {
			return
		}
		timer.Reset(next)
	}
}

// look goes through the leases that are due, or soon, and returns those that have run
// out, and how long there is nothing to do.
func (r *renewals) look(now time.Time) (expired []*lease, next time.Duration, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []*line // where something is ready
	for len(r.due) > 0 {
		s := r.due[0]
		ranOut := !now.Before(s.until)
		if !r.closed && !ranOut && now.Before(s.due) && !(len(lines) > 0 && s.soon(now)) {
			break
		}
		switch {
		case r.closed:
			s.lost = errNotRenewed
		case ranOut:
			s.lost = lock.ErrExpired
		default:
			if !s.beingExtended() {
				s.inLine = true
				l := s.locker.backend.line(s)
				heap.Push(&l.ready, s)
				if !slices.Contains(lines, l) {
					lines = append(lines, l)
				}
			}
			r.postpone(s, s.until)
			continue
		}
		r.drop(s)
		expired = append(expired, s)
	}
	// Those who are sending may be for a while.
	for _, l := range lines {
		for n := len(l.ready); n > 0 && l.sending < maxExtending; n -= maxBatch {
			l.sending++
			r.finished.Go(func() { r.send(l) })
		}
	}
	next = math.MaxInt64
	if len(r.due) > 0 {
		next = r.due[0].due.Sub(now)
	}
	r.wakes = now.Add(next)
	return expired, next, r.closed
}

// send extends what is ready in a line, until nothing is.
func (r *renewals) send(l *line) {
	for {
		batch := r.take(l)
		if len(batch) == 0 {
			return
		}
		l.extendAll(batch)
	}
}

func (r *renewals) take(l *line) (batch []*lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(l.ready) > 0 && len(batch) < maxBatch {
		s := heap.Pop(&l.ready).(*lease)
		s.inLine = false
		if s.index != 0 {
			s.extending = make(chan struct{})
			batch = append(batch, s)
		}
	}
	if len(batch) == 0 {
		l.sending--
	}
	return batch
}

// extended notes what became of an extension sent at start. false: the lease is
// lost by it.
func (r *renewals) extended(s *lease, start time.Time, o outcome) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(s.extending)
	s.extending = nil
	valid := time.Now().Before(s.until)
	switch o {
	case done, doneInterrupted:
		if s.lost == nil && valid {
			s.until = start.Add(validFor(s.ttl))
		}
	case notOurs, gone:
		if s.lost == nil {
			switch {
			case !valid:
				s.lost = lock.ErrExpired
			case o == notOurs:
				s.lost = lock.ErrStolen
			default:
				s.lost = errGone
			}
		}
	}
	if s.index == 0 {
		return true // released meanwhile, or run out: somebody else deals with it
	}
	switch {
	case s.lost != nil:
		r.drop(s)
		return false
	case o == done || o == doneInterrupted:
		r.postpone(s, earliest(s.nextRenewal(start), s.until)) // which may be over
	default:
		// Not known, or refused: again soon, until the lease runs out.
		r.postpone(s, earliest(time.Now().Add(jitter(min(s.ttl/10, opTimeout))), s.until))
	}
	if o == doneInterrupted {
		s.cancel(lock.ErrInterrupted) // with the mutex, or a release may come before
	}
	r.wakeFor(s)
	return true
}

// close ends all leases and waits until nothing is running any more.
func (r *renewals) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.poke()
	r.finished.Wait()
}
