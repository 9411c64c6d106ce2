package redislock

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// maxBatch is how many commands are sent in one trip.
const maxBatch = 128

// trips sends the requests of callers, all to one script, and brings the replies.
// As long as few ask at a time, each makes a round trip of its own, on a connection
// of its own. When many do, those who come wait until one of the trips has ended, and
// share the next one: most of what a trip costs is the same for one and for a
// hundred. Nobody waits for company. The price is that a trip without a reply fails
// up to maxBatch callers.
//
// Whoever waits for a trip has sent nothing yet, and knows it. That is what
// go-redis can't tell, neither of its pool nor of its AutoPipeline. Renewals and
// clean-up make trips of their own, which nobody else's can delay.
type trips struct {
	server  *server
	client  commander
	limit   int                              // of those that run at a time
	prepare func(within time.Duration) error // before each; may be nil

	mu      sync.Mutex
	waiting list.List // of *waiter, the oldest first
	running int
	closed  bool
	ends    sync.WaitGroup // of those that run
}

// A request is what is sent for one caller. Its methods are called by one goroutine
// at a time, which need not be the caller's, and not after do has returned.
type request interface {
	// write returns the command as of now: it is about to be sent.
	write(on *server) command
	// settle takes what became of it, and says whether that settles it. Otherwise
	// it is written and sent again, if there is time.
	settle(reply any, err error) (o outcome, settled bool)
}

// A waiter is a request that waits for a trip, then for its end.
type waiter struct {
	request
	place *list.Element // nil once it waits for a trip no more
	done  chan struct{} // closed when it is settled, or not sent because of err
	err   error
}

// settle lets a waiter go that is settled, whatever the others wait for.
func (w *waiter) settle(reply any, err error) (outcome, bool) {
	o, settled := w.request.settle(reply, err)
	if settled {
		close(w.done)
	}
	return o, settled
}

// do sends r and returns when it is settled or can't be, which is callTimeout after
// its trip began at the latest, or opTimeout after prepare has had an answer. Before
// that it waits for a trip, at most for patience, until ctx is done and until the
// breaker opens; an error says that nothing was sent.
func (t *trips) do(ctx context.Context, patience time.Duration, r request) error {
	open := t.server.breaker.open.wait()
	select {
	case <-open:
		return t.server.breaker.err()
	default:
	}
	w, err := t.enter(r)
	if err != nil {
		return err
	}
	if w == nil {
		defer t.next()
		t.trip(callTimeout, r)
		return nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.done:
		return w.err
	case <-timer.C:
		err = errNoTrip
	case <-open:
		err = t.server.breaker.err()
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-t.server.locker.closed:
		err = errClosed
	}
	if t.leave(w) {
		return err
	}
	<-w.done // it is sent, and seen through
	return w.err
}

// enter returns the waiter that r is, or nil where it is to make a trip of its own.
func (t *trips) enter(r request) (*waiter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errClosed
	}
	if t.running < t.limit {
		t.running++
		t.ends.Add(1)
		return nil, nil
	}
	w := &waiter{request: r, done: make(chan struct{})}
	w.place = t.waiting.PushBack(w)
	return w, nil
}

// leave says whether w has left: it was not being sent yet.
func (t *trips) leave(w *waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.place == nil {
		return false
	}
	t.waiting.Remove(w.place)
	return true
}

// next ends a trip, and has another one made for those who wait.
func (t *trips) next() {
	if batch := t.batch(); len(batch) > 0 {
		go t.share(batch) // counted as running
	}
}

// share makes the trip of a batch, and goes on until nobody waits.
func (t *trips) share(batch []request) {
	for ; len(batch) > 0; batch = t.batch() {
		for _, r := range t.trip(callTimeout, batch...) {
			close(r.(*waiter).done)
		}
	}
}

// batch returns the waiters that make the next trip. Where nobody waits there is none.
func (t *trips) batch() (batch []request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	open := t.server.breaker.open.on()
	for t.waiting.Len() > 0 && len(batch) < maxBatch {
		w := t.waiting.Remove(t.waiting.Front()).(*waiter)
		w.place = nil
		switch {
		case t.closed:
			w.err = errClosed
		case open:
			w.err = t.server.breaker.err()
		default:
			batch = append(batch, w)
			continue
		}
		close(w.done)
	}
	if len(batch) == 0 {
		t.running--
		t.ends.Done()
	}
	return batch
}

// trip takes bound at most, and returns the requests that it has not settled. Where
// it fails quickly those are sent again.
func (t *trips) trip(bound time.Duration, requests ...request) []request {
	start := time.Now()
	var missed error // why nothing has had the reply that it should have had
	persist(bound, func(bound time.Duration) (o outcome, settled bool) {
		requests, o, missed = t.attempt(bound, requests)
		return o, len(requests) == 0
	})
	if missed != nil {
		t.server.breaker.missed(start, missed) // before the next batch is made
	}
	return requests
}

// attempt sends requests once and returns those that it has not settled, what
// is known the least of them, and why none had the reply that it should have had.
func (t *trips) attempt(bound time.Duration, requests []request) (unsettled []request, worst outcome, missed error) {
	worst = done
	other := false // has replied, or failed otherwise
	settle := func(r request, reply any, err error) {
		o, settled := r.settle(reply, err)
		if o.replied() {
			t.server.health.heard()
			t.server.breaker.heard()
		}
		if other = other || !unreachable(err); other {
			missed = nil
		} else {
			missed = err
		}
		if !settled {
			unsettled = append(unsettled, r)
			worst = min(worst, o)
		}
	}
	bound, err := t.prepared(bound)
	if err != nil {
		for _, r := range requests {
			settle(r, nil, err)
		}
		return unsettled, worst, missed
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	if len(requests) == 1 {
		reply, err := t.server.run(ctx, t.client, requests[0].write(t.server))
		settle(requests[0], reply, err)
		return unsettled, worst, missed
	}
	commands := make([]command, len(requests))
	for i, r := range requests {
		commands[i] = r.write(t.server)
	}
	for i, cmd := range t.server.runAll(ctx, t.client, commands) {
		reply, err := cmd.Result()
		settle(requests[i], reply, err)
	}
	return unsettled, worst, missed
}

// prepared prepares an attempt and returns how long it may take from then on: a
// server that has answered just now, and took long, is given as long as a command
// takes.
func (t *trips) prepared(bound time.Duration) (time.Duration, error) {
	if t.prepare == nil {
		return bound, nil
	}
	start := time.Now()
	if err := t.prepare(bound); err != nil {
		t.server.doubt(err)
		return 0, unsentError{err}
	}
	return max(bound-time.Since(start), min(bound, opTimeout)), nil
}

// close waits until no trip runs any more, for as long as do says: none begins after
// that.
func (t *trips) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.ends.Wait()
}
