package redislock

import (
	"context"
	"time"
)

// slots has one place for each connection of a pool. Whoever waits for a place
// has sent nothing yet, and knows it: inside of go-redis that wait and the
// command would share one deadline and one error.
type slots chan struct{}

func (s slots) give() { <-s }

// ready takes a place for a call, and waits for one at most for patience. While
// calls fail it gives up early: whoever has a place then waits in vain, and who
// comes after them is not to do so as well.
func (l *Locker) ready(ctx context.Context, s slots, patience time.Duration) error {
	if l.isClosed() {
		return errClosed
	}
	select {
	case s <- struct{}{}:
		return nil
	default:
	}
	start := time.Now()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	failing := l.health.whenFailing()
	for {
		select {
		case s <- struct{}{}:
			if l.health.failing.Load() && time.Since(start) > failingPatience {
				s.give() // too late: with its call it would take more than a second
				return errNoReplies
			}
			return nil
		case <-failing:
			failing = nil
			timer.Reset(min(patience, failingPatience) - time.Since(start))
		case <-timer.C:
			rest := patience - time.Since(start)
			switch {
			case rest <= 0:
				return errNoConnection
			case l.health.failing.Load():
				return errNoReplies
			}
			failing = l.health.whenFailing() // it was a moment
			timer.Reset(rest)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.closed:
			return errClosed
		}
	}
}

// drain waits until no call has a place any more, at most until ctx is done.
func (s slots) drain(ctx context.Context) {
	for range cap(s) {
		select {
		case s <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}
