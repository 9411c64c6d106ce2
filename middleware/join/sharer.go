package join

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/reqlock/reqlock/internal/transcript"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// A Sharer is for [middleware.WithJoin]. Guards may have one in common. Make it with
// [New]. All methods may be called concurrently.
type Sharer struct {
	config

	mu   sync.Mutex
	runs map[string]*run // that may be joined, by work
}

var _ middleware.Sharer = (*Sharer)(nil)

// New returns a Sharer for the requests of this process. It panics, with an error that
// lists all of it, on what is wrong with the arguments.
//
// locks is for what is not built yet, sharing with other processes, and must be nil.
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

// A run is a handler that runs, or waits to, and whoever waits for its response.
type run struct {
	of         *Sharer
	work       string
	transcript *transcript.Transcript
	context    context.Context // the handler's; done when nobody is left
	cancel     context.CancelCauseFunc

	viewers int // with of.mu
}

// A viewer is one of those.
type viewer struct {
	run    *run
	reader *transcript.Reader
	ctx    context.Context // ends when the client leaves, or is cut off
	cancel context.CancelCauseFunc
	once   sync.Once
}

// Share is for [middleware.Guard].
func (s *Sharer) Share(w http.ResponseWriter, r *http.Request, work string, lead middleware.Lead) (led bool, err error) {
	v, leads := s.enter(r.Context(), work)
	defer v.leave()
	if leads {
		return true, v.lead(w, r, lead)
	}
	return false, v.follow(w)
}

// enter returns a viewer of the run that there is, or of one that it is to lead.
func (s *Sharer) enter(ctx context.Context, work string) (v *viewer, leads bool) {
	v = new(viewer)
	v.ctx, v.cancel = context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.run = s.runs[work]; v.run != nil {
		if v.reader, _ = v.run.transcript.Reader(v.cancel); v.reader != nil {
			v.run.viewers++
			return v, false
		}
	}
	v.run = &run{of: s, work: work, transcript: transcript.New(s.kept), viewers: 1}
	v.run.context, v.run.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	v.reader, _ = v.run.transcript.Reader(v.cancel) // nothing is gone yet
	s.runs[work] = v.run
	return v, true
}

// leave may be called more than once.
func (v *viewer) leave() { v.once.Do(v.left) }

func (v *viewer) left() {
	cause := context.Cause(v.ctx)
	v.cancel(nil)
	v.reader.Close()
	s := v.run.of
	s.mu.Lock()
	v.run.viewers--
	last := v.run.viewers == 0
	if last {
		v.run.remove()
	}
	s.mu.Unlock()
	if last {
		v.run.cancel(cause)
	}
}

// close has nobody join any more.
func (r *run) close() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.remove()
}

// remove is close with of.mu held.
func (r *run) remove() {
	if r.of.runs[r.work] == r {
		delete(r.of.runs, r.work)
	}
}
