package middleware

import (
	"context"
	"errors"

	"github.com/reqlock/reqlock/middleware/lock"
)

// limit returns a child of ctx that ends with ErrMaxHold when MaxHold is over,
// and in which lock.From finds the lease with that same context. There is a
// timer behind it and no goroutine. Without MaxHold it returns ctx and nil,
// whose methods do nothing.
func (g *Guard) limit(ctx context.Context, lease lock.Lease) (context.Context, *limited) {
	if g.maxHold == 0 {
		return ctx, nil
	}
	timed, cancel := context.WithTimeoutCause(ctx, g.maxHold, lock.ErrMaxHold)
	l := &limited{Lease: lease, cancel: cancel, told: make(chan struct{})}
	l.ctx = lock.NewContext(timed, l)
	l.tell = func() {
		// A limit further out may have been first, and is told of there.
		if errors.Is(context.Cause(timed), lock.ErrMaxHold) && !errors.Is(context.Cause(ctx), lock.ErrMaxHold) {
			g.observer(context.WithoutCancel(l.ctx), lock.Overran{Key: lease.Key(), Fence: lease.Fence(), Hold: g.maxHold})
		}
	}
	l.forget = context.AfterFunc(timed, func() {
		defer close(l.told)
		defer func() { l.panicked = recover() }() // nobody else would here, and the process would end
		l.tell()
	})
	return l.ctx, l
}

// A limited lease is one that its handler may hold for MaxHold only.
type limited struct {
	lock.Lease
	ctx    context.Context
	cancel context.CancelFunc
	tell   func()        // sends Overran, if it is due
	told   chan struct{} // closed when that was done because ctx ended
	forget func() bool   // false: it was, or is being, done

	panicked any // an observer, by then
}

func (l *limited) Context() context.Context { return l.ctx }

// settle is called when the handler has returned. What was due by then has been
// sent when it returns, and nothing is sent after that.
func (l *limited) settle() {
	if l == nil {
		return
	}
	switch {
	case !l.forget():
		if <-l.told; l.panicked != nil {
			panic(l.panicked) // as with any other event
		}
	case l.ctx.Err() != nil: // at this very moment
		l.tell()
	}
}

func (l *limited) stop() {
	if l != nil {
		l.cancel()
	}
}
