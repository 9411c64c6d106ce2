package middleware

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// A sharing is a request that may have its response in common with others.
type sharing struct {
	g        *Guard
	w        http.ResponseWriter
	r        *http.Request
	text     []byte // the body
	next     http.Handler
	key      string
	arrived  time.Time
	encoding contentEncoding

	ran  bool     // next
	stop *stopped // next was cut off
}

// denied is what Lead returns that has not answered.
type denied struct{ Denial }

func (d *denied) Error() string { return string(d.Reason) }

// join reads what tells equal requests, and shares the response unless it is for r alone.
func (g *Guard) join(w http.ResponseWriter, r *http.Request, body io.ReadCloser, next http.Handler, key string, arrived time.Time) (ran bool) {
	text, body, whole := g.wholeBody(r, body)
	if !whole || !mayShare(r) {
		return g.alone(w, r, body, next, &visit{Context: r.Context(), guard: g, key: key}, arrived, g.acquire)
	}
	s := &sharing{g: g, w: w, r: r, text: text, next: next, key: key, arrived: arrived, encoding: w.Header()["Content-Encoding"]}
	print, err := g.fingerprint(s.request(), text)
	if err != nil {
		g.turnAway(w, s.request(), keyDenial(err), key, time.Since(arrived))
		return false
	}
	return s.share(identity(key, r, print))
}

// share answers s with the response to an equal request, or takes it through the lock,
// for those that come later as well.
func (s *sharing) share(work string) (ran bool) {
	o := s.g.acquire
	deadline := s.arrived.Add(o.Wait)
	c := Call{Work: work, Until: deadline, Joined: func() { s.g.setRole(s.w, roleJoined) }}
	c.Lead = func(w http.ResponseWriter, r *http.Request, run Run) error { return s.lead(w, r, run, o) }
	if o.Wait == 0 {
		c.Until = deadline.Add(oneTry)
	}
	for ; ; o = o.WaitUntil(deadline) {
		led, err := s.g.sharer.Share(s.w, s.r, c)
		if led {
			return s.led(err)
		}
		d, ok := errors.AsType[*denied](err)
		if ok && d.Reason == Busy && time.Now().Before(deadline) && s.r.Context().Err() == nil {
			continue // that was the end of another's time
		}
		return s.followed(err)
	}
}

// oneTry is how long a Locker takes for one at most.
const oneTry = time.Second

// lead is for [Call].
func (s *sharing) lead(w http.ResponseWriter, r *http.Request, run Run, o lock.Options) error {
	v := &visit{Context: r.Context(), guard: s.g, key: s.key, shared: true}
	body, err := s.g.lockFor(v, r, again(s.text), o)
	wait := time.Since(s.arrived)
	switch {
	case err != nil && r.Context().Err() != nil: // the time of this one was up, not of others
		return &denied{newDenial(Busy, s.g.retryAfter(1, wait), err)}
	case err != nil:
		return &denied{s.g.lockDenial(r.Context(), err, wait)}
	}
	s.g.setRole(s.w, v.role())
	s.ran = true
	defer func() { s.r.MultipartForm = r.MultipartForm }() // see run
	run.Started()
	s.stop = s.g.hold(w, r, body, s.next, v, wait, run.Stopped)
	u, ok := s.next.(interface{ Unanswered() bool })
	switch {
	case s.stop == nil && ok && u.Unanswered():
		return ErrNotShared
	case s.stop == nil:
		return nil
	case s.stop.begun:
		return ErrBrokenOff
	default:
		return &denied{newDenial(s.stop.reason, 0, s.stop.cause)}
	}
}

// led ends a request that was to answer, err being what [Sharer] has returned.
func (s *sharing) led(err error) (ran bool) {
	switch {
	case s.stop != nil:
		s.g.cutOff(s.w, s.request(), s.key, time.Since(s.arrived), s.encoding, s.stop)
	case !s.ran:
		s.turnAway(err)
	case errors.Is(err, ErrBrokenOff):
		s.breakOff()
	}
	return s.ran
}

// followed ends a request that another one was to answer.
func (s *sharing) followed(err error) (ran bool) {
	switch {
	case err == nil, errors.Is(err, ErrBrokenOff):
		s.g.observer(s.r.Context(), lock.Joined{Key: s.key, Took: time.Since(s.arrived), Err: err})
		if err != nil {
			s.breakOff()
		}
	case errors.Is(err, ErrNotShared):
		return s.alone(s.g.acquire)
	case errors.Is(err, ErrNotStarted): // the Locker knows whether that is contention or an outage
		o := s.g.acquire
		o.Wait = 0
		return s.alone(o)
	default:
		s.turnAway(err)
	}
	return false
}

// alone has a request run for itself that has waited for another.
func (s *sharing) alone(o lock.Options) (ran bool) {
	v := &visit{Context: s.r.Context(), guard: s.g, key: s.key, waited: true}
	return s.g.alone(s.w, s.r, again(s.text), s.next, v, s.arrived, o)
}

func (s *sharing) turnAway(err error) {
	wait := time.Since(s.arrived)
	d, ok := errors.AsType[*denied](err)
	ctx := s.r.Context()
	switch {
	case ctx.Err() != nil:
		d = &denied{s.g.lockDenial(ctx, context.Cause(ctx), wait)}
	case !ok:
		d = &denied{newDenial(Failed, 0, err)}
	}
	s.w.Header().Del(RoleHeader)
	s.g.turnAway(s.w, s.request(), d.Denial, s.key, wait)
}

// breakOff is for a response of which something has been sent. To a client that has gone
// it is no more than what every handler finds at some time.
func (s *sharing) breakOff() {
	if clientLeft(s.r.Context()) && seal(s.w) == nil {
		return
	}
	breakOff(s.w)
}

// request has its body as it came.
func (s *sharing) request() *http.Request { return withBody(s.r, again(s.text)) }

// mayShare says whether what r asks for is for others as well: not so a part, or what
// depends on what its client has already, or the connection.
func mayShare(r *http.Request) bool {
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace || len(r.Trailer) > 0 {
		return false
	}
	for name := range r.Header {
		if name == "Range" || name == "Upgrade" || strings.HasPrefix(name, "If-") {
			return false
		}
	}
	return true
}

// shares says whether g may have the response to a request shared: no guard further out
// does already, or could. A request that holds the key of one with the same Sharer might
// otherwise follow one that waits for that key.
func (g *Guard) shares(ctx context.Context) bool {
	if g.sharer == nil {
		return false
	}
	for v := range visits(ctx) {
		if v.shared || v.guard.sharer != nil && same(v.guard.sharer, g.sharer) {
			return false
		}
	}
	return true
}

// inShared says whether what is written with ctx is shared: a [Sharer] ends that.
func inShared(ctx context.Context) bool {
	for v := range visits(ctx) {
		if v.shared {
			return true
		}
	}
	return false
}

func (v *visit) role() string {
	if v.waited {
		return roleQueued
	}
	return roleLeader
}

func (g *Guard) setRole(w http.ResponseWriter, role string) {
	if !g.noRole {
		w.Header().Set(RoleHeader, role)
	}
}
