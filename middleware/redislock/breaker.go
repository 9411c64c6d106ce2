package redislock

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// A breaker spares callers the wait for a server that does not reply. It opens when a
// trip has ended without a reply, and no other had one meanwhile: from then on who comes
// is told at once. A probe is sent, on a connection of its own, and again and again; the
// first that has a reply closes the breaker. If the first one has none, who waits is told
// as well: they lose a place, which is not to happen for one bad connection, or for a
// process that was suspended. No caller is ever the probe.
//
// What a server refuses, it has replied to: that does not open a breaker. Renewals and
// clean-up do not ask it. A release does: while it is open the clean-up takes that over
// (rule 19).
type breaker struct {
	probe   func() error // returns why there was no sign of life; nil: there was, or nobody can tell
	circuit *gobreaker.CircuitBreaker[struct{}]
	open    *signal         // on while the circuit is not closed
	outage  *signal         // on while probes fail, too
	changed func(away bool) // is told of an outage; may be nil
	onClose func()          // may be nil
	health  *health

	// Renewals and clean-up have connections of their own. What they hear says nothing
	// about those that callers have.
	created time.Time
	replied atomic.Int64 // when a trip last had a reply, in ns since created

	mu      sync.Mutex
	reason  error // why the newest trip had no reply
	running bool  // run
	closed  bool
	done    chan struct{} // closed by close
	ended   sync.WaitGroup
}

// probePause is the least time between two probes. It is up to twice as long, so that
// processes that have noticed together do not come back together.
const probePause = 100 * time.Millisecond

// The shortest and the longest pause where the server replies, but an outage is not over.
const (
	firstCheck = 250 * time.Millisecond
	lastCheck  = 5 * time.Second
)

func newBreaker(h *health, probe func() error) *breaker {
	b := &breaker{probe: probe, health: h, open: newSignal(), outage: newSignal(), created: time.Now(), done: make(chan struct{})}
	b.circuit = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:     time.Nanosecond, // it is told of each probe, and of nothing else while it is open
		ReadyToTrip: func(gobreaker.Counts) bool { return true },
		OnStateChange: func(_ string, _, to gobreaker.State) { // with the circuit's mutex
			b.open.set(to != gobreaker.StateClosed)
			if to == gobreaker.StateClosed {
				b.tell(false)
				if b.onClose != nil {
					b.onClose()
				}
			} else {
				b.start()
			}
		},
	})
	h.failing = b.start
	return b
}

func (b *breaker) report(err error) {
	_, _ = b.circuit.Execute(func() (struct{}, error) { return struct{}{}, err })
}

// tell tells those who wait.
func (b *breaker) tell(away bool) {
	if b.outage.set(away) && b.changed != nil {
		b.changed(away)
	}
}

// heard notes that a trip had a reply.
func (b *breaker) heard() { b.replied.Store(int64(time.Since(b.created))) }

// missed notes that a trip that began then had none, because of err.
func (b *breaker) missed(began time.Time, err error) {
	if b.open.on() || !b.unanswered(began) {
		return
	}
	b.mu.Lock()
	b.reason = err
	b.mu.Unlock()
	b.report(err)
}

// unanswered says that no trip had a reply since then, or for as long as one may take.
func (b *breaker) unanswered(since time.Time) bool {
	silent := time.Since(b.created) - time.Duration(b.replied.Load())
	return silent >= min(time.Since(since), opTimeout)
}

// err is for a caller while the breaker is open.
func (b *breaker) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Errorf("%w: %v", errNoReplies, b.reason)
}

func (b *breaker) start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.running && !b.closed {
		b.running = true
		b.ended.Go(b.run)
	}
}

// run probes while the breaker is open, at once and then now and then; and when it is
// not, ever more seldom, until the outage is over for the operator as well, who is to
// read of that also where nobody asks.
func (b *breaker) run() {
	for pause := time.Duration(0); b.sleep(pause); {
		began := time.Now()
		err := b.probe()
		answered := err == nil || !b.unanswered(began)
		switch {
		case !answered && !b.open.on():
			b.missed(began, err)
		case !answered:
			b.tell(true)
			b.report(err)
		default:
			b.report(nil)
		}
		switch {
		case b.open.on():
			pause = probePause + rand.N(probePause)
		case b.stop():
			return
		default:
			pause = min(max(2*pause, firstCheck), lastCheck)
		}
	}
}

// stop ends run, unless there is an outage.
func (b *breaker) stop() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running = b.open.on() || b.health.down.Load() // which is set before start
	return !b.running
}

// sleep waits for a while, or until the breaker opens, and says whether there is to be
// another probe.
func (b *breaker) sleep(d time.Duration) bool {
	var opens <-chan struct{}
	if !b.open.on() {
		opens = b.open.wait()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-opens:
		return true
	case <-b.done:
		return false
	}
}

// close waits until nothing is probed any more, and nothing will be.
func (b *breaker) close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.done)
	}
	b.mu.Unlock()
	b.ended.Wait()
}
