package middleware

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// A standIn holds keys for a guard whose Locker, the primary, is unavailable,
// and beside it while it is not: no process then runs two handlers of a key when
// one takes over from the other. It is the primary first and the standIn second
// for everybody, so nobody waits in a circle.
type standIn struct {
	locks    lock.Locker
	name     string
	observer lock.Observer

	mu      sync.Mutex             // held to store
	current atomic.Pointer[outage] // nil: none
}

func newStandIn(l lock.Locker, observer lock.Observer) *standIn {
	name := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", l), "*"), ".Locker")
	if s, ok := l.(fmt.Stringer); ok {
		name = s.String()
	}
	return &standIn{locks: l, name: name, observer: observer}
}

// acquire acquires key from the primary and from the stand-in: a *paired lease.
// From the stand-in alone it is a *borrowed, from the primary alone the primary's.
// then is as for Guard.ask: what is waited for then is not borrowed now.
func (s *standIn) acquire(ctx context.Context, primary lock.Locker, key string, o lock.Options, then time.Duration) (lock.Lease, error) {
	deadline := time.Now().Add(o.Wait)
	lease, err := primary.Acquire(ctx, key, o)
	switch {
	case !errors.Is(err, lock.ErrBusy) && worthWaiting(err, then):
		return nil, err
	case errors.Is(err, lock.ErrUnavailable) && ctx.Err() == nil:
		return s.borrow(ctx, key, o.WaitUntil(deadline), err)
	case errors.Is(err, lock.ErrBusy), errors.Is(err, lock.ErrQueueFull):
		s.answered(ctx)
		return nil, err
	case err != nil:
		return nil, err
	}

	standby, err := s.locks.Acquire(lease.Context(), key, o.WaitUntil(deadline))
	switch {
	case err == nil:
		return newPaired(lease, standby, fenceOf(lease, standby, o.Wait)), nil
	case errors.Is(err, lock.ErrUnavailable) && lease.Context().Err() == nil: // it is no cause of that context
		return lease, nil // an outage of what stands in is none of the request's
	}
	_ = lease.Release(ctx) // what it does not give back, its TTL frees
	s.answered(ctx)
	if errors.Is(err, lock.ErrInterrupted) && ctx.Err() == nil {
		// Meant for who runs: for whom this one waited, of whom the primary does
		// not know.
		_, _ = s.locks.Interrupt(ctx, key)
	}
	return nil, err
}

// borrow acquires key from the stand-in alone, since the primary said why.
func (s *standIn) borrow(ctx context.Context, key string, o lock.Options, why error) (lock.Lease, error) {
	out := s.failed()
	// Of another Locker further out the stand-in is to learn nothing: see memlock.
	lease, err := s.locks.Acquire(lock.NewContext(ctx, nil), key, o)
	switch {
	case err == nil:
		return &borrowed{lease, out, why}, nil
	case ctx.Err() != nil, errors.Is(err, lock.ErrBusy), errors.Is(err, lock.ErrQueueFull):
		return nil, err
	default:
		return nil, fmt.Errorf("%w; fallback: %w", why, err)
	}
}

// granted is told of a lease that acquire returned for r, when its release is certain,
// whatever an observer does. It reports whether that is the stand-in's alone.
func (s *standIn) granted(ctx context.Context, r *http.Request, lease lock.Lease) bool {
	if s == nil {
		return false
	}
	b, ok := lease.(*borrowed)
	if ok {
		s.runs(ctx, r, b.outage, b.why)
	} else {
		s.answered(ctx)
	}
	return ok
}

// fenceOf is the primary's fence, unless the stand-in gave out one above it while
// that lease waited its turn there. Where they are further apart than that can
// explain, their clocks are, and the primary's is the one to go by.
func fenceOf(primary, standby lock.Lease, wait time.Duration) uint64 {
	fence, other := primary.Fence(), standby.Fence()
	if fence == 0 || other < fence || other-fence > uint64((wait+time.Second).Microseconds()) {
		return fence
	}
	return other
}

// interrupt asks the stand-in first: whoever runs in this process has the key
// there, too. The second of two questions could reach who comes next.
func (s *standIn) interrupt(ctx context.Context, primary lock.Locker, key string) (bool, error) {
	if held, err := s.locks.Interrupt(ctx, key); held && err == nil {
		return true, nil
	}
	return primary.Interrupt(ctx, key)
}
