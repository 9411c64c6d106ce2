package redislock

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/reqlock/reqlock/internal/turn"
	"github.com/reqlock/reqlock/middleware/lock"
)

// drift is the part of a TTL by which the clocks of two machines may differ
// over its length. We stop trusting a lease that much before Redis drops it. It
// is redsync's default, and the Redlock algorithm's.
const drift = 0.01

// A lease is one call of Acquire, from its arrival on; with the lock's token in
// hand it is a lock.Lease.
type lease struct {
	locker *Locker
	key    string
	names  names
	token  string
	ttl    time.Duration
	try    bool // wants only yes or no

	mutex *redsync.Mutex
	turn  *turn.Turn[*lease]
	dirty bool // a question of this token's has no answer, and may still arrive

	// answered is closed when Redis has answered for the first time, or has
	// failed to; granted and failed are set before. Tries wait for it.
	answered chan struct{}
	granted  bool
	failed   error

	ctx    context.Context
	cancel context.CancelCauseFunc
	fence  uint64

	renewal // guarded by its scheduler

	release  sync.Once
	released error
}

func (l *Locker) newLease(key string, o lock.Options) *lease {
	return &lease{
		locker:   l,
		key:      key,
		names:    namesOf(l.prefix, key),
		token:    rand.Text(),
		ttl:      o.TTL,
		try:      o.Wait == 0,
		answered: make(chan struct{}),
	}
}

func (s *lease) Key() string              { return s.key }
func (s *lease) Fence() uint64            { return s.fence }
func (s *lease) Context() context.Context { return s.ctx }

func (s *lease) Release(ctx context.Context) error {
	s.release.Do(func() { s.released = s.giveBack(ctx) })
	return s.released
}

func (s *lease) giveBack(ctx context.Context) error {
	// No extension is sent from here on, and none is on its way: an extension
	// that overtakes the release would not harm the lock, but nobody who reads
	// a trace should have to know that.
	until, lost := s.locker.renewals.remove(s)
	s.cancel(lock.ErrReleased)
	defer s.turn.Pass()
	if lost != nil {
		// The last extension may have arrived all the same.
		s.locker.leaves.add(s)
		return lost
	}
	err := s.unlock(ctx, until)
	if errors.Is(err, lock.ErrUnavailable) {
		s.locker.leaves.add(s)
	}
	return err
}

// unlock frees the lock, which was trusted until then.
func (s *lease) unlock(ctx context.Context, until time.Time) error {
	valid := time.Now().Before(until)
	q := &question{parent: ctx, lease: s, op: leave}
	_ = q.put(func(ctx context.Context) error {
		_, err := s.mutex.UnlockContext(ctx)
		return err
	})
	switch {
	case q.answer == yes:
		return nil
	case !q.answer.given():
		return unavailable(q.err)
	case valid && q.lost:
		return nil // the attempt whose answer was lost has done it
	case valid && q.answer == others:
		return lock.ErrStolen
	default:
		return lock.ErrExpired
	}
}

// deadFor is how long the token is to be dead once it is given up.
func (s *lease) deadFor() time.Duration {
	if !s.dirty {
		return 0
	}
	return tombstone(s.ttl)
}

// tombstone outlasts a question that is still on its way.
func tombstone(ttl time.Duration) time.Duration { return max(ttl, 10*time.Second) }

// lose ends the lease of a holder that did not give it back. The scheduler has
// let go of it before.
func (s *lease) lose(err error) {
	s.cancel(err)
	s.turn.Pass()
	s.locker.observe(s.ctx, lock.Lost{Key: s.key, Fence: s.fence, Err: err})
}
