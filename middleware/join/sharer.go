package join

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// A Sharer is for [middleware.WithJoin]. Make it with [New]. All methods may be called
// concurrently.
type Sharer struct {
	config

	mu   sync.Mutex
	runs map[string]*run // that may be joined, by work
}

var _ middleware.Sharer = (*Sharer)(nil)

// New returns a Sharer for the requests of this process. Guards may have one in common,
// unless the same URL leads to different handlers. It panics, with an error that lists all
// of it, on what is wrong with the arguments.
//
// locks must be nil: requests of other processes, which it is for, can't be joined yet.
func New(locks *redislock.Locker, opts ...Option) *Sharer {
	c, err := newConfig(opts)
	if locks != nil {
		err = errors.Join(err, errors.New("the redislock.Locker must be nil: other processes can't be joined yet"))
	}
	if err != nil {
		panic(fmt.Errorf("join: New: %w", err))
	}
	return &Sharer{config: c, runs: make(map[string]*run)}
}

// Share is for [middleware.Guard].
func (s *Sharer) Share(w http.ResponseWriter, r *http.Request, c middleware.Call) (led bool, err error) {
	v, leads := s.enter(r.Context(), c.Work)
	defer v.close()
	if leads {
		return true, v.lead(w, r, c.Lead)
	}
	return false, v.follow(w, c)
}

// enter returns a viewer of the run that there is, or of one that it is to lead.
func (s *Sharer) enter(ctx context.Context, work string) (v *viewer, leads bool) {
	for {
		r, isNew := s.find(ctx, work)
		if isNew {
			return r.leader(ctx), true
		}
		if v = r.follower(ctx); v != nil {
			return v, false
		}
		r.close() // its beginning is gone
		r.left(nil)
	}
}

// find returns the run that there is, or a new one, with one more viewer.
func (s *Sharer) find(ctx context.Context, work string) (r *run, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r = s.runs[work]
	if r == nil {
		isNew = true
		r = newRun(ctx, s, work)
		s.runs[work] = r
	}
	r.viewers++
	return r, isNew
}

// remove has nobody join a run any more. The mutex is held.
func (s *Sharer) remove(r *run) {
	if s.runs[r.work] == r {
		delete(s.runs, r.work)
	}
}
