package middleware

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// An outage begins with an ErrUnavailable and ends once the primary answers and
// has not said that for outageOver.
type outage struct {
	failed   time.Time // the newest ErrUnavailable
	began    time.Time // zero: nothing has run yet, and the observer knows nothing
	requests int       // that ran
	route    string    // of the first
	telling  bool      // the observer is being told, without mu: nothing is to be told meanwhile
}

const (
	outageOver = time.Second
	// outageStale is after how long without an ErrUnavailable the next one is another
	// outage's, of a guard that had no requests in between.
	outageStale = time.Minute
)

// failed notes an ErrUnavailable and returns the outage that it is part of.
func (s *standIn) failed() *outage {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.current.Load()
	if out == nil || !out.telling && time.Since(out.failed) > outageStale {
		out = new(outage)
		s.current.Store(out)
	}
	out.failed = time.Now()
	return out
}

// runs notes that a request which was part of out has its key.
func (s *standIn) runs(ctx context.Context, r *http.Request, out *outage, why error) {
	s.mu.Lock()
	switch now := s.current.Load(); {
	case now != nil:
		out = now
	case out.began.IsZero():
		s.current.Store(out) // was over, as it seemed, while the request waited
	default:
		s.mu.Unlock()
		return // the last of an outage that the observer knows to be over
	}
	out.requests++
	if !out.began.IsZero() {
		s.mu.Unlock()
		return
	}
	out.began, out.telling = time.Now(), true
	out.route = cmp.Or(r.Pattern, r.Method+" "+r.URL.Path)
	s.mu.Unlock()

	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		out.telling = false
	}()
	s.observer(ctx, lock.FallbackBegan{Route: out.route, Fallback: s.name, Err: why})
}

// answered notes that the primary has answered.
func (s *standIn) answered(ctx context.Context) {
	if s.current.Load() == nil {
		return
	}
	s.mu.Lock()
	out := s.current.Load()
	if out == nil || out.telling || time.Since(out.failed) < outageOver {
		s.mu.Unlock()
		return
	}
	if out.began.IsZero() {
		s.current.Store(nil)
		s.mu.Unlock()
		return
	}
	out.telling = true
	ended := lock.FallbackEnded{Route: out.route, Fallback: s.name, Requests: out.requests, After: time.Since(out.began)}
	s.mu.Unlock()

	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.current.Store(nil)
	}()
	s.observer(ctx, ended)
}
