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

// cleanup gives up tokens whose state is not known, or that wait in Redis and
// are not to: an acquire without a reply, a release without one, a caller that
// has gone. It goes on until Redis acknowledges, or until nothing of the token
// can be left. One goroutine does it, while there is something to do, and many in
// one trip: a token that waits can be granted, or told, until it is given up.
type cleanup struct {
	server *server
	wake   chan struct{} // there is a reason to try again

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

// givenUpBy is a token that s has given up.
func givenUpBy(s *lease, token string, tombstone time.Duration) givenUp {
	return givenUp{s.names, token, tombstone, time.Now().Add(s.ttl + max(tombstone, keepTrying))}
}

// add takes over what was given up.
func (c *cleanup) add(g givenUp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed.IsZero() || len(c.pending) >= maxCleanups {
		return
	}
	c.pending = append(c.pending, g)
	if !c.running {
		c.running = true
		c.finished.Go(c.run)
	}
}

func (c *cleanup) run() {
	pauses := backoff{next: firstRetry}
	for {
		batch := c.take()
		if len(batch) == 0 {
			return
		}
		again := c.leave(batch)
		c.putBack(again)
		if len(again) < len(batch) {
			pauses = backoff{next: firstRetry} // one key that is refused does not hold up the others
		} else if !c.sleep(pauses.pause(-1)) {
			return
		}
	}
}

// hurry has tried again what has failed: the server replies again. Callers may find
// keys held by nobody until that is done.
func (c *cleanup) hurry() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// sleep says whether the Locker is still open.
func (c *cleanup) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.wake:
		return true
	case <-c.server.locker.closed:
		return false
	}
}

// take takes out what to do next, nothing where the time after close is up.
func (c *cleanup) take() []givenUp {
	c.mu.Lock()
	defer c.mu.Unlock()
	timeUp := !c.closed.IsZero() && time.Since(c.closed) > opTimeout
	if len(c.pending) == 0 || timeUp {
		c.pending, c.running = nil, false
		return nil
	}
	n := min(len(c.pending), maxBatch)
	batch := c.pending[:n:n]
	c.pending = c.pending[n:]
	return batch
}

// leave sends one trip and returns what is to be tried again.
func (c *cleanup) leave(batch []givenUp) (again []givenUp) {
	on := c.server
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	commands := make([]command, len(batch))
	for i := range batch {
		g := &batch[i]
		commands[i] = on.scripts.leaveCommand(&g.names, &g.token, g.tombstone)
	}
	worst := result{op: release, outcome: done}
	for i, reply := range on.runAll(ctx, on.hold, commands) {
		g := batch[i]
		r := result{op: release, outcome: done}
		if err := reply.Err(); err != nil {
			r = failed(release, err)
			if next := on.topology.follow(g.names.lock, on, err); next != nil && next != on {
				next.cleanup.add(g)
			} else if time.Now().Before(g.until) {
				again = append(again, g)
			}
		}
		if r.outcome != elsewhere && r.err != nil {
			worst = r
		}
	}
	on.health.report(ctx, worst)
	return again
}

// putBack puts what has failed behind the rest.
func (c *cleanup) putBack(failed []givenUp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, failed...)
}

// close starts nothing after opTimeout, and nothing once Redis does not reply.
// The TTL frees the rest.
func (c *cleanup) close() {
	c.mu.Lock()
	c.closed = time.Now()
	c.mu.Unlock()
	c.finished.Wait()
}
