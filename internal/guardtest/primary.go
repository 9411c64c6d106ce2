package guardtest

import (
	"context"
	"sync"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// Primary is a Locker on a server that can fail, with a clock of its own: what a
// fallback stands in for. All methods may be called concurrently.
type Primary struct {
	ahead time.Duration

	mu      sync.Mutex
	err     error // nil: it answers
	locks   *memlock.Locker
	fence   uint64
	waiting map[*context.CancelCauseFunc]bool
	held    map[*primaryLease]bool
}

// NewPrimary returns one that answers, whose clock is so far ahead of this one.
func NewPrimary(ahead time.Duration) *Primary {
	return &Primary{
		ahead: ahead, locks: memlock.New(),
		waiting: make(map[*context.CancelCauseFunc]bool), held: make(map[*primaryLease]bool),
	}
}

// Fail makes everything fail with err, also for those who wait; with nil it
// answers again. Who holds a key goes on holding it.
func (p *Primary) Fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	for cancel := range p.waiting {
		if err != nil {
			(*cancel)(err)
		}
	}
}

// Forget ends every lease as lost: the keys are free.
func (p *Primary) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.locks = memlock.New()
	for l := range p.held {
		l.end(lock.ErrExpired)
	}
	clear(p.held)
}

// Held counts the leases.
func (p *Primary) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held)
}

func (p *Primary) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	locks, err := p.locks, p.err
	if err == nil {
		p.waiting[&cancel] = true
	}
	p.mu.Unlock()
	if err != nil {
		cancel(err)
		return nil, err
	}
	lease, err := locks.Acquire(ctx, key, o)

	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, &cancel)
	if err == nil && (ctx.Err() != nil || p.locks != locks) { // it has failed meanwhile
		_ = lease.Release(ctx)
		err = lock.ErrUnavailable
	}
	if err != nil {
		cancel(err)
		return nil, err
	}
	p.fence = max(p.fence+1, uint64(time.Now().Add(p.ahead).UnixMicro()))
	l := &primaryLease{Lease: lease, p: p, fence: p.fence}
	l.ctx, l.end = context.WithCancelCause(lease.Context())
	l.ctx = lock.NewContext(l.ctx, l)
	p.held[l] = true
	return l, nil
}

func (p *Primary) Interrupt(ctx context.Context, key string) (bool, error) {
	p.mu.Lock()
	locks, err := p.locks, p.err
	p.mu.Unlock()
	if err != nil {
		return false, err
	}
	return locks.Interrupt(ctx, key)
}

type primaryLease struct {
	lock.Lease
	p     *Primary
	fence uint64
	ctx   context.Context
	end   context.CancelCauseFunc
}

func (l *primaryLease) Fence() uint64            { return l.fence }
func (l *primaryLease) Context() context.Context { return l.ctx }

// Release frees the key also where the server would not answer, as the TTL does.
func (l *primaryLease) Release(ctx context.Context) error {
	l.p.mu.Lock()
	err := l.p.err
	if cause := context.Cause(l.ctx); !l.p.held[l] && cause != nil && cause != lock.ErrReleased {
		err = cause
	}
	delete(l.p.held, l)
	l.p.mu.Unlock()
	l.end(lock.ErrReleased)
	_ = l.Lease.Release(ctx)
	return err
}
