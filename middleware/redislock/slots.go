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

// ready takes a place for a call, waits for one at most for patience, and returns
// how long the call may take. While no call has a reply it gives up after
// callTimeout, the call included: whoever has a place then waits in vain, and who
// comes after them is not to do so as well.
func (l *Locker) ready(ctx context.Context, s slots, patience time.Duration) (bound time.Duration, err error) {
	if l.isClosed() {
		return 0, errClosed
	}
	select {
	case s <- struct{}{}:
		return callTimeout, nil
	default:
	}
	start := time.Now()
	timer := time.NewTimer(min(patience, callTimeout))
	defer timer.Stop()
	for {
		select {
		case s <- struct{}{}:
			inVain := min(time.Since(start), l.health.silent())
			if inVain >= callTimeout {
				s.give()
				return 0, errNoReplies
			}
			return callTimeout - inVain, nil
		case <-timer.C:
			rest := patience - time.Since(start)
			switch {
			case l.health.silent() > opTimeout:
				return 0, errNoReplies
			case rest <= 0:
				return 0, errNoConnection
			}
			timer.Reset(min(rest, callTimeout))
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-l.closed:
			return 0, errClosed
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
