package lock

import (
	"context"
	"errors"
	"fmt"
)

// Open is a Locker that excludes nobody: it grants every key to everybody at once,
// with the fence 0, and knows of no holder to interrupt. As the fallback of a guard
// it lets requests run without a lock while there is none to be had: it fails open.
var Open Locker = openLocker{}

type openLocker struct{}

func (openLocker) String() string { return "lock.Open" }

func (openLocker) Acquire(ctx context.Context, key string, o Options) (Lease, error) {
	if key == "" {
		return nil, errors.New("lock: open: acquire: the key is empty")
	}
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("lock: open: acquire: %w", err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l := &openLease{key: key}
	inner, cancel := context.WithCancelCause(ctx)
	l.ctx, l.cancel = NewContext(inner, l), cancel
	return l, nil
}

func (openLocker) Interrupt(_ context.Context, key string) (bool, error) {
	if key == "" {
		return false, errors.New("lock: open: interrupt: the key is empty")
	}
	return false, nil
}

type openLease struct {
	key    string
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func (l *openLease) Key() string              { return l.key }
func (l *openLease) Fence() uint64            { return 0 }
func (l *openLease) Context() context.Context { return l.ctx }

func (l *openLease) Release(context.Context) error {
	l.cancel(ErrReleased)
	return nil
}
