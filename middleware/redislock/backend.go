package redislock

import (
	"context"
	"time"
)

// A backend is how keys are held: each on one server ([homes]), or on most of
// several ([quorum]).
type backend interface {
	// ask asks for the lock. It waits at most for patience until that can be sent, and
	// then takes as long as a call.
	ask(ctx context.Context, s *lease, patience time.Duration) (answer, error)

	// listen sees to it that s, which waits, is told of a grant, or returns soon.
	listen(ctx context.Context, s *lease) error

	// unregister is for a caller that waits no more.
	unregister(s *lease)

	// unlock frees the lock, which was trusted until then, in the background where that
	// is not acknowledged.
	unlock(ctx context.Context, s *lease, until time.Time) error

	// abandon has the token of s given up in the background. It must not be asked for
	// again, and is not to hold for as long as tombstone says.
	abandon(s *lease, tombstone time.Duration)

	// interrupt asks the holder of a key in another process to stop, and says whether
	// there is one.
	interrupt(ctx context.Context, key string) (bool, error)

	// line returns where s is to queue for its next extension.
	line(s *lease) *line

	// outage returns a channel that is closed once those do not answer who have a key,
	// whose name this is. It waits for nothing.
	outage(name string) <-chan struct{}

	// silentAt and claimSilence are for s, which waits: see there.
	silentAt(s *lease) time.Time
	claimSilence(s *lease, now time.Time) bool

	// close waits until nothing goes on any more.
	close() error
}
