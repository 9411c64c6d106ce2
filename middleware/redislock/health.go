package redislock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// quietTime is how long the backend must not have failed to count as recovered,
// so that one that comes and goes is one outage and not a hundred.
const quietTime = time.Second

// health turns the results of operations into one event for each outage.
type health struct {
	observe lock.Observer
	addr    string
	down    atomic.Bool // read by every operation, without the mutex

	mu      sync.Mutex
	since   time.Time     // of the first failure
	failed  time.Time     // of the newest
	failing chan struct{} // closed while the backend is down
}

func newHealth(addr string, observe lock.Observer) *health {
	return &health{observe: observe, addr: addr, failing: make(chan struct{})}
}

// whenFailing returns a channel that is closed once the backend is down.
func (h *health) whenFailing() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failing
}

// report takes the outcome of an operation that the server should have
// answered. nil is success.
func (h *health) report(ctx context.Context, err error) {
	if err == nil && !h.down.Load() {
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
	now := time.Now()
	switch down := h.down.Load(); {
	case err != nil && !down:
		h.down.Store(true)
		h.since, h.failed = now, now
		close(h.failing)
		return lock.BackendFailed{Err: fmt.Errorf("redis at %s: %w", h.addr, err)}
	case err != nil:
		h.failed = now
	case down && now.Sub(h.failed) >= quietTime:
		h.down.Store(false)
		h.failing = make(chan struct{})
		return lock.BackendRecovered{After: now.Sub(h.since)}
	}
	return nil
}
