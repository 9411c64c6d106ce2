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

// ready takes a place for a call, and waits for one at most for patience.
func (l *Locker) ready(ctx context.Context, s slots, patience time.Duration) error {
	if l.isClosed() {
		return errClosed
	}
	select {
	case s <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case s <- struct{}{}:
		return nil
	case <-timer.C:
		return errNoConnection
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.closed:
		return errClosed
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
