package redislock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// A breaker spares callers the wait for a server that does not reply. It opens when a
// trip has ended without a reply and nothing else has had one meanwhile: then who waits
// for the server is told, and who comes is told at once. As long as it is open a probe
// is sent now and then, and the first that has a reply closes it. No caller is ever
// the probe.
//
// What a server refuses, it has replied to: that does not open a breaker. Renewals and
// clean-up do not ask it (rule 19), nor does a release: it is left to the clean-up.
type breaker struct {
	health  *health
	probe   func() result
	circuit *gobreaker.CircuitBreaker[result]
	outage  *signal         // on while the circuit is not closed
	changed func(away bool) // is told of that; may be nil

	mu      sync.Mutex
	reason  error // why the newest trip had no reply
	running bool  // run
	closed  bool
	done    chan struct{} // closed by close
	ended   sync.WaitGroup
}

const (
	// probePause is the least time between two probes; it is up to twice as long, so that
	// processes that have noticed together do not come back together.
	probePause = 100 * time.Millisecond
	// probeMore is for how long a server is probed that replies again, so that the end of
	// an outage is told of also where nobody asks.
	probeMore = 2 * quietTime
)

func newBreaker(h *health, probe func() result) *breaker {
	b := &breaker{health: h, probe: probe, outage: newSignal(), done: make(chan struct{})}
	b.circuit = gobreaker.NewCircuitBreaker[result](gobreaker.Settings{
		Timeout:     probePause / 2, // from then on the next probe is let through
		ReadyToTrip: func(gobreaker.Counts) bool { return true },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			away := to != gobreaker.StateClosed
			if b.outage.set(away) && b.changed != nil {
				b.changed(away)
			}
			if to == gobreaker.StateOpen {
				b.start()
			}
		},
	})
	return b
}

// missed notes that what was asked at a time has had no reply because of err.
func (b *breaker) missed(asked time.Time, err error) {
	if b.health.silent() < min(time.Since(asked), opTimeout) {
		return // others have had theirs
	}
	b.mu.Lock()
	b.reason = err
	b.mu.Unlock()
	_, _ = b.circuit.Execute(func() (result, error) { return result{}, err })
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

func (b *breaker) run() {
	replies := time.Now() // since then it does
	for b.sleep(probePause + rand.N(probePause)) {
		_, err := b.circuit.Execute(func() (result, error) {
			r := b.probe()
			b.health.report(context.Background(), r)
			if !r.outcome.replied() {
				return r, r.err
			}
			return r, nil
		})
		if err != nil {
			replies = time.Now()
		} else if !b.health.down.Load() || time.Since(replies) > probeMore {
			if b.stop() {
				return
			}
		}
	}
}

// stop ends run, unless the breaker has just opened.
func (b *breaker) stop() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running = b.outage.on()
	return !b.running
}

// sleep says whether there is to be another probe.
func (b *breaker) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-b.done:
		return false
	}
}

// close waits until nothing is probed any more, and what comes later is not.
func (b *breaker) close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.done)
	}
	b.mu.Unlock()
	b.ended.Wait()
}
