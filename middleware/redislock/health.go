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

// health turns the results of operations into one event for each outage, and
// knows when the server has last replied.
type health struct {
	observe lock.Observer
	server  string // what an event begins with
	failing func() // is told when an outage begins; may be nil
	start   time.Time

	// Written or read by every operation, without the mutex.
	replied atomic.Int64 // when the newest reply came, in ns since start
	asked   atomic.Int64 // when a caller last asked out of turn, for the silence
	down    atomic.Bool  // an outage was told of
	retired atomic.Bool  // nobody needs the server any more

	mu      sync.Mutex
	since   time.Time // of the first failure
	failed  time.Time // of the newest
	refused bool      // acquires are refused; that others are carried out is no recovery
}

func newHealth(server string, observe lock.Observer) *health {
	return &health{observe: observe, server: server, start: time.Now()}
}

// heard notes a reply.
func (h *health) heard() { h.replied.Store(int64(time.Since(h.start))) }

// silent returns how long nothing has had a reply. One operation may go without
// because of its connection, while others have theirs.
func (h *health) silent() time.Duration {
	return time.Since(h.start) - time.Duration(h.replied.Load())
}

func (h *health) report(ctx context.Context, r result) {
	if r.outcome.replied() {
		h.heard()
	}
	switch {
	case r.outcome.known() && !h.down.Load():
		return
	case r.err != nil && aboutOneKey(r.err):
		return // the server is well
	case h.retired.Load():
		return
	case r.err != nil && unasked(r.err):
		return
	}
	if e := h.change(r); e != nil {
		if _, began := e.(lock.BackendFailed); began && h.failing != nil {
			h.failing()
		}
		h.observe(context.WithoutCancel(ctx), e)
	}
}

// degraded tells of what the server refuses, and what that costs.
func (h *health) degraded(err error) {
	h.observe(context.Background(), lock.Degraded{Err: fmt.Errorf("redislock: %s%w", h.server, err)})
}

// keptBack tells of a restart, after which free keys are given to nobody for a while.
func (h *health) keptBack(guard time.Duration) {
	h.observe(context.Background(), lock.KeptBack{Backend: h.name(), For: guard.Round(time.Millisecond)})
}

func (h *health) name() string { return strings.TrimSuffix(h.server, ": ") }

// aboutOneKey finds what a server says where somebody has put something else in
// the place of a key.
func aboutOneKey(err error) bool { return strings.Contains(err.Error(), "WRONGTYPE") }

func (h *health) change(r result) lock.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.op == acquire {
		h.refused = r.outcome == refused && !passing(r.err)
	}
	now := time.Now()
	switch down := h.down.Load(); {
	case !r.outcome.known() && !down:
		h.down.Store(true)
		h.since, h.failed = now, now
		return lock.BackendFailed{Err: fmt.Errorf("redislock: %s%w", h.server, r.err)}
	case !r.outcome.known() || h.refused:
		h.failed = now
	case down && now.Sub(h.failed) >= quietTime:
		return h.recovered(now)
	}
	return nil
}

// recovered ends an outage. The caller holds h.mu.
func (h *health) recovered(now time.Time) lock.Event {
	h.down.Store(false)
	return lock.BackendRecovered{Backend: h.name(), After: now.Sub(h.since)}
}

// retire ends what is told of a server in whose place there is another.
func (h *health) retire() {
	if h.retired.Swap(true) {
		return
	}
	h.mu.Lock()
	var e lock.Event
	if h.down.Load() {
		e = h.recovered(time.Now())
	}
	h.mu.Unlock()
	if e != nil {
		h.observe(context.Background(), e)
	}
}
