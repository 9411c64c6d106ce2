package redislock

import (
	"context"
	"sync"
	"time"
)

// firstRetry is the pause after the first attempt of a clean-up that failed.
const firstRetry = 100 * time.Millisecond

// keepTrying is how much longer than the TTL a clean-up is tried.
const keepTrying = 10 * time.Second

// maxCleanups bounds what is remembered through a long outage. What is dropped
// beyond it costs the key's next holder a wait until the TTL has passed.
const maxCleanups = 10_000

// cleanup gives up tokens whose state is not known: an acquire without a reply,
// a release without one. It goes on until Redis acknowledges, or until nothing
// of the token can be left. One goroutine does it, while there is something to
// do.
type cleanup struct {
	locker *Locker

	mu       sync.Mutex
	pending  []givenUp
	running  bool
	closed   time.Time // zero: it is not
	finished sync.WaitGroup
}

type givenUp struct {
	names     names
	token     string
	tombstone time.Duration
	until     time.Time // nothing of it is left by then
}

// add takes over the token of s, which must not be asked for again, and is not
// to hold for as long as tombstone says.
func (c *cleanup) add(s *lease, tombstone time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed.IsZero() || len(c.pending) >= maxCleanups {
		return
	}
	c.pending = append(c.pending, givenUp{s.names, s.token, tombstone, time.Now().Add(s.ttl + max(tombstone, keepTrying))})
	if !c.running {
		c.running = true
		c.finished.Go(c.run)
	}
}

func (c *cleanup) run() {
	failed, pauses := 0, backoff{next: firstRetry}
	for {
		next, ok := c.first()
		if !ok {
			return
		}
		err := c.leave(next)
		if err == nil || time.Now().After(next.until) {
			failed, pauses = 0, backoff{next: firstRetry}
			continue
		}
		failed++
		if n := c.putBack(next); failure(err) == refused && failed < n {
			continue // one key that is refused does not hold up the others
		}
		failed = 0
		if c.locker.sleep(context.Background(), pauses.pause(-1)) != nil {
			return // closed
		}
	}
}

// first takes out what to do next, false where that is nothing or the time
// after close is up.
func (c *cleanup) first() (givenUp, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	timeUp := !c.closed.IsZero() && time.Since(c.closed) > opTimeout
	if len(c.pending) == 0 || timeUp {
		c.pending, c.running = nil, false
		return givenUp{}, false
	}
	next := c.pending[0]
	c.pending[0] = givenUp{}
	c.pending = c.pending[1:]
	return next, true
}

// putBack puts g behind the others and returns how many there are.
func (c *cleanup) putBack(g givenUp) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, g)
	return len(c.pending)
}

func (c *cleanup) leave(next givenUp) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_, err := c.locker.scripts.leave.run(ctx, c.locker.holdClient, leaveArgs(next.names, next.token, next.tombstone)...)
	c.locker.health.report(ctx, result{release, outcomeOf(err), err})
	return err
}

// close starts nothing after opTimeout, and nothing once Redis does not reply.
// The TTL frees the rest.
func (c *cleanup) close() {
	c.mu.Lock()
	c.closed = time.Now()
	c.mu.Unlock()
	c.finished.Wait()
}
