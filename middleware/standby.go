package middleware

import (
	"context"
	"errors"

	"github.com/reqlock/reqlock/middleware/lock"
)

// A borrowed lease is the stand-in's alone.
type borrowed struct {
	lock.Lease
	outage *outage
	why    error // what the primary said
}

// A paired lease is the primary's, with that of the stand-in beside it. What
// becomes of the latter is nothing to the handler, unless it is interrupted:
// while the primary is unavailable nobody can be by way of that.
type paired struct {
	lock.Lease
	standby lock.Lease
	fence   uint64
	ctx     context.Context
	cancel  context.CancelCauseFunc
	stop    func() bool
}

func newPaired(primary, standby lock.Lease, fence uint64) *paired {
	p := &paired{Lease: primary, standby: standby, fence: fence}
	ctx, cancel := context.WithCancelCause(primary.Context())
	p.ctx, p.cancel = lock.NewContext(ctx, p), cancel
	p.stop = context.AfterFunc(standby.Context(), func() {
		if cause := context.Cause(standby.Context()); errors.Is(cause, lock.ErrInterrupted) {
			cancel(cause)
		}
	})
	return p
}

func (p *paired) Fence() uint64            { return p.fence }
func (p *paired) Context() context.Context { return p.ctx }

// Release gives the stand-in's lease back first: the next holder of the
// primary's finds it free.
func (p *paired) Release(ctx context.Context) error {
	p.stop()
	p.cancel(lock.ErrReleased)
	_ = p.standby.Release(ctx) // what it does not give back, its TTL frees
	return p.Lease.Release(ctx)
}
