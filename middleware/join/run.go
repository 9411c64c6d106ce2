package join

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/reqlock/reqlock/internal/transcript"
)

// A run is a handler that runs, or waits to, and whoever waits for its response.
type run struct {
	of         *Sharer
	work       string
	transcript *transcript.Transcript
	context    context.Context // the handler's
	cancel     context.CancelCauseFunc
	started    atomic.Bool // the handler has
	cut        atomic.Bool // it was stopped, and has ended the response

	viewers int // with of.mu
}

// newRun returns one with what ctx has, but for its end.
func newRun(ctx context.Context, s *Sharer, work string) *run {
	r := &run{of: s, work: work, transcript: transcript.New(s.kept)}
	r.context, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return r
}

// Started and Stopped are for [middleware.Run].
func (r *run) Started() { r.started.Store(true) }
func (r *run) Stopped() { r.close() }

// close has nobody join any more.
func (r *run) close() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.remove(r)
}

// end has followers told why there is no response for them.
func (r *run) end(cause error) {
	r.close()
	r.transcript.Break(cause)
}

// stop ends the handler's context.
func (r *run) stop(cause error) {
	r.close()
	r.cancel(cause)
}

// left is for each viewer, once. The last one stops the handler.
func (r *run) left(cause error) {
	r.of.mu.Lock()
	r.viewers--
	last := r.viewers == 0
	if last {
		r.of.remove(r)
	}
	r.of.mu.Unlock()
	if last {
		r.cancel(cause)
	}
}

// A viewer is one who waits for the response.
type viewer struct {
	run    *run
	reader *transcript.Reader
	ctx    context.Context // ends when nothing more is to be sent
	cancel context.CancelCauseFunc
	gone   sync.Once
}

// leader returns the viewer of a new run. That its client leaves does not end v.ctx: what
// there is can still be sent, as far as the connection takes it.
func (r *run) leader(ctx context.Context) *viewer {
	v := &viewer{run: r}
	v.ctx, v.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	v.reader, _ = r.transcript.Reader(v.cancel) // nothing is gone yet
	return v
}

// follower returns a viewer, nil if it is too late.
func (r *run) follower(ctx context.Context) *viewer {
	v := &viewer{run: r}
	v.ctx, v.cancel = context.WithCancelCause(ctx)
	reader, err := r.transcript.Reader(v.cancel)
	if err != nil {
		v.cancel(nil)
		return nil
	}
	v.reader = reader
	return v
}

// leave has the run not go on for v. Only the first call counts.
func (v *viewer) leave(cause error) { v.gone.Do(func() { v.run.left(cause) }) }

// leaveWithContext is leave when v.ctx ends, unless the result is called before.
func (v *viewer) leaveWithContext() (stop func() bool) {
	return context.AfterFunc(v.ctx, func() { v.leave(context.Cause(v.ctx)) })
}

func (v *viewer) close() {
	v.leave(context.Cause(v.ctx))
	v.cancel(nil)
	v.reader.Close()
}
