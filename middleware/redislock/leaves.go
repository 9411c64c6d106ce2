package redislock

import (
	"context"
	"sync"
	"time"
)

// firstLeave is the pause after the first attempt that failed.
const firstLeave = 100 * time.Millisecond

// maxLeaves bounds what is remembered through a long outage. What is dropped
// beyond it costs the key's next holder a wait until the TTL has passed.
const maxLeaves = 10_000

// leaves gives up tokens whose state is not known: an acquire without an
// answer, a release without one. It goes on until Redis acknowledges, or until
// nothing of the token can be left. One goroutine does it, while there is
// something to do.
type leaves struct {
	locker *Locker

	mu       sync.Mutex
	pending  []leaving
	running  bool
	closed   bool
	finished sync.WaitGroup
}

type leaving struct {
	names names
	token string
	dead  time.Duration // how long the token is to be dead
	until time.Time     // nothing of it is left by then
}

// add takes over the token of s. From here on the lease must not ask again.
func (l *leaves) add(s *lease) {
	dead := tombstone(s.ttl)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.pending) >= maxLeaves {
		return
	}
	l.pending = append(l.pending, leaving{names: s.names, token: s.token, dead: dead, until: time.Now().Add(s.ttl + dead)})
	if !l.running {
		l.running = true
		l.finished.Go(l.run)
	}
}

func (l *leaves) run() {
	pauses := backoff{next: firstLeave}
	for {
		next, ok := l.first()
		if !ok {
			return
		}
		err := l.leave(next)
		if err == nil || time.Now().After(next.until) {
			l.forget()
			pauses = backoff{next: firstLeave}
			continue
		}
		if l.locker.sleep(context.Background(), pauses.pause(-1)) != nil {
			return // closed
		}
	}
}

func (l *leaves) first() (leaving, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		l.pending, l.running = nil, false
		return leaving{}, false
	}
	return l.pending[0], true
}

func (l *leaves) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending[0] = leaving{}
	l.pending = l.pending[1:]
}

// close waits until nothing is pending, or until Redis does not answer: the TTL
// frees the rest.
func (l *leaves) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.finished.Wait()
}

func (l *leaves) leave(next leaving) error {
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	_, err := l.locker.scripts.leave.run(ctx, l.locker.holdClient, next.names.lock, next.names.dead, next.token, millis(next.dead))
	l.locker.health.report(ctx, err)
	return err
}
