package locktest_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

type toyLease struct {
	toy    *toy
	turn   *caller
	name   string // as given to Acquire
	key    string // as the backend knows it
	ttl    time.Duration
	fence  uint64
	ctx    context.Context
	cancel context.CancelCauseFunc

	stop, stopped chan struct{} // of the renewal
	once          sync.Once
	lost          error // written by the renewal
	released      error
}

func (s *toyLease) Key() string              { return s.name }
func (s *toyLease) Fence() uint64            { return s.fence }
func (s *toyLease) Context() context.Context { return s.ctx }

func (s *toyLease) start(ctx context.Context) lock.Lease {
	if s.toy.has("the context is no child") {
		ctx = context.Background()
	}
	inner, cancel := context.WithCancelCause(ctx)
	s.ctx, s.cancel = lock.NewContext(inner, s), cancel
	switch {
	case s.toy.has("the lease is not in its context"):
		s.ctx = inner
	case s.toy.has("release does not end the context"):
		s.cancel = func(err error) {
			if !errors.Is(err, lock.ErrReleased) {
				cancel(err)
			}
		}
	case s.toy.has("the parent's end releases"):
		context.AfterFunc(ctx, func() { _ = s.toy.backend.leave(s.key, s); s.toy.leave(s.key, s.turn) })
	}
	go s.renew()
	return s
}

func (s *toyLease) renew() {
	defer close(s.stopped)
	ticker := time.NewTicker(s.ttl / 3)
	defer ticker.Stop()
	valid := time.Now().Add(s.ttl)
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
		}
		asked := time.Now()
		interrupted, err := s.toy.backend.extend(s.key, s)
		if interrupted {
			s.cancel(lock.ErrInterrupted)
		}
		switch {
		case s.toy.has("renewal is not stopped"):
		case err == nil:
			valid = asked.Add(s.ttl)
		case errors.Is(err, lock.ErrLost):
			s.end(err)
			return
		case time.Now().After(valid) && !s.toy.has("a lease outlives an outage"):
			s.end(lock.ErrExpired)
			return
		}
	}
}

func (s *toyLease) end(err error) {
	s.lost = err
	s.cancel(err)
	if !s.toy.has("a lost lease keeps its turn") {
		s.toy.leave(s.key, s.turn)
	}
}

func (s *toyLease) Release(ctx context.Context) error {
	if s.toy.has("a done context is not released") && ctx.Err() != nil {
		return ctx.Err()
	}
	if s.toy.has("each release passes the turn") {
		s.toy.leave(s.key, s.turn)
	}
	again := true
	s.once.Do(func() { again = false; s.release() })
	if again && s.toy.has("a second release frees the next one's key") {
		s.toy.backend.lose(s.key)
		s.toy.leave(s.key, s.toy.first(s.key))
	}
	return s.released
}

func (s *toyLease) release() {
	if s.toy.has("renewal is not stopped") {
		s.cancel(lock.ErrReleased)
		s.released = s.toy.backend.leave(s.key, s)
		s.toy.leave(s.key, s.turn)
		return
	}
	close(s.stop)
	<-s.stopped
	s.cancel(lock.ErrReleased)
	if s.released = s.lost; s.lost == nil {
		s.released = s.toy.backend.leave(s.key, s)
	}
	if errors.Is(s.released, lock.ErrUnavailable) && !s.toy.has("a failed release is forgotten") {
		go func() {
			for errors.Is(s.toy.backend.leave(s.key, s), lock.ErrUnavailable) {
				time.Sleep(time.Millisecond)
			}
		}()
	}
	switch {
	case s.toy.has("a lost lease is released without a word"):
		s.released = nil
	case s.toy.has("stolen is told as expired") && errors.Is(s.released, lock.ErrStolen):
		s.released = lock.ErrExpired
	case s.toy.has("expired is told as stolen") && errors.Is(s.released, lock.ErrExpired):
		s.released = lock.ErrStolen
	}
	s.toy.leave(s.key, s.turn)
}
