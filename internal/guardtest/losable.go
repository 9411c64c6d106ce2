package guardtest

import (
	"context"

	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// Losable is memlock with leases that [Lose] ends as a lost one ends.
type Losable struct{ *memlock.Locker }

// NewLosable returns a Locker of its own.
func NewLosable() Losable { return Losable{memlock.New()} }

func (l Losable) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	lease, err := l.Locker.Acquire(ctx, key, o)
	if err != nil {
		return nil, err
	}
	s := &losableLease{Lease: lease}
	s.ctx, s.end = context.WithCancelCause(lease.Context())
	s.ctx = lock.NewContext(s.ctx, s)
	return s, nil
}

type losableLease struct {
	lock.Lease
	ctx context.Context
	end context.CancelCauseFunc
}

func (l *losableLease) Context() context.Context { return l.ctx }

// Lose ends the lease that the work with ctx runs under.
func Lose(ctx context.Context, cause error) {
	lease, _ := lock.From(ctx)
	lease.(*losableLease).end(cause)
}
