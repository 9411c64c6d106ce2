package redislock

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// quietTime is how long the backend must not have failed to count as recovered,
// so that one that comes and goes is one outage and not a hundred.
const quietTime = time.Second

// health turns the results of operations into one event for each outage, and
// says whether the newest of them failed.
type health struct {
	observe lock.Observer
	server  string
	failing atomic.Bool // read by every operation, without the mutex
	down    atomic.Bool // an outage was told of; read as well

	mu     sync.Mutex
	since  time.Time     // of the first failure
	failed time.Time     // of the newest
	fails  chan struct{} // closed while failing
}

func newHealth(addr string, observe lock.Observer) *health {
	h := &health{observe: observe, fails: make(chan struct{})}
	if _, _, err := net.SplitHostPort(addr); err == nil { // of a FailoverClient it is none
		h.server = fmt.Sprintf("redis at %s: ", addr)
	}
	return h
}

// whenFailing returns a channel that is closed once an operation has failed.
func (h *health) whenFailing() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fails
}

// report takes the outcome of an operation that the server should have
// answered. nil is success.
func (h *health) report(ctx context.Context, err error) {
	if err == nil && !h.failing.Load() && !h.down.Load() {
		return
	}
	if err != nil && strings.Contains(err.Error(), "WRONGTYPE") {
		return // somebody has put something else under one key; the server is well
	}
	if e := h.change(err); e != nil {
		h.observe(ctx, e)
	}
}

func (h *health) change(err error) lock.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	if failing := err != nil; failing != h.failing.Load() {
		h.failing.Store(failing)
		if failing {
			close(h.fails)
		} else {
			h.fails = make(chan struct{})
		}
	}
	now := time.Now()
	switch down := h.down.Load(); {
	case err != nil && !down:
		h.down.Store(true)
		h.since, h.failed = now, now
		return lock.BackendFailed{Err: fmt.Errorf("redislock: %s%w", h.server, err)}
	case err != nil:
		h.failed = now
	case down && now.Sub(h.failed) >= quietTime:
		h.down.Store(false)
		return lock.BackendRecovered{After: now.Sub(h.since)}
	}
	return nil
}
