package middleware

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware/lock"
)

// A Guard lets requests through to a handler one at a time per key. Make one
// with [NewGuard]. All methods may be called concurrently.
type Guard struct {
	config
	locks   lock.Locker
	standIn *standIn // nil: there is none
	key     keyfuncs.Func
	holds   holdTime
}

// NewGuard returns a Guard that holds, with locks, the key that key derives
// from a request. One Guard usually stands for one route: Retry-After is
// estimated from how long its handlers have taken in this process, and at least
// what the request has waited; a second where neither is known.
//
// The error joins every problem with the arguments, each on a line of its own.
func NewGuard(locks lock.Locker, key keyfuncs.Func, opts ...Option) (*Guard, error) {
	var errs []error
	if isNil(locks) {
		errs = append(errs, errors.New("middleware: the lock.Locker is nil"))
	}
	if key == nil {
		errs = append(errs, errors.New("middleware: the key function is nil"))
	}
	c, err := newConfig(opts)
	errs = append(errs, err)
	if !isNil(locks) && !isNil(c.fallback) && same(locks, c.fallback) {
		errs = append(errs, errors.New("middleware: WithFallback: it is the guard's own lock.Locker"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	g := &Guard{config: c, locks: locks, key: key}
	if c.fallback != nil {
		g.standIn = newStandIn(c.fallback, c.observer)
	}
	return g, nil
}

// isNil also finds the nil pointer inside an interface: what a constructor
// leaves whose error was not looked at.
func isNil(l any) bool {
	v := reflect.ValueOf(l)
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan:
		return v.IsNil()
	default:
		return false
	}
}

// Serve takes r the way that the package comment describes. It reports whether
// next ran; otherwise the response has been written. All of it, next included,
// runs on the caller's goroutine.
//
// The request that next gets carries the lease's context. The ResponseWriter
// that it gets offers the optional interfaces that w does ([http.Flusher],
// [http.Hijacker], [io.ReaderFrom] and so on), no more and no less; it is w
// itself where w keeps count of what is written, as gin's does.
//
// With [WithJoin] that ResponseWriter is another one, without the deprecated
// http.CloseNotifier, the context ends when nobody waits for the response any more,
// and next goes on where r's client has left and others are there. A next with
// the method Unanswered() bool says by that, after it has returned, that somebody
// further out will answer: others then run for themselves.
//
// What next panics with, and runtime.Goexit, go on to the caller after the
// release. Serve itself panics with [http.ErrAbortHandler] where a response is half
// written and can't be ended: next was cut off, or a client of a response that is
// shared was too slow.
func (g *Guard) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) (ran bool) {
	if r.Method == http.MethodOptions || g.skip != nil && g.skip(r) {
		next.ServeHTTP(w, r)
		return true
	}
	arrived := time.Now()
	key, body, err := g.deriveKey(r)
	if err != nil {
		g.turnAway(w, r, keyDenial(err), "", time.Since(arrived))
		return false
	}
	if g.shares(r.Context()) && g.outer(r.Context(), key) == nil {
		return g.join(w, r, body, next, key, arrived)
	}
	return g.alone(w, r, body, next, &visit{Context: r.Context(), guard: g, key: key}, arrived, g.acquire)
}

// alone takes r through the lock for itself, unless a guard further out holds its key.
func (g *Guard) alone(w http.ResponseWriter, r *http.Request, body io.ReadCloser, next http.Handler, v *visit, arrived time.Time, o lock.Options) (ran bool) {
	encoding := contentEncoding(w.Header()["Content-Encoding"])
	var stop *stopped
	if outer := g.outer(r.Context(), v.key); outer != nil {
		stop = g.holdOn(w, r, body, next, outer.lease)
	} else {
		body, err := g.lockFor(v, r, body, o)
		wait := time.Since(arrived)
		if err != nil {
			w.Header().Del(RoleHeader)
			g.turnAway(w, withBody(r, body), g.lockDenial(r.Context(), err, wait), v.key, wait)
			return false
		}
		if g.shares(r.Context()) {
			g.setRole(w, v.role())
		}
		stop = g.hold(w, r, body, next, v, wait, nil)
	}
	if stop != nil {
		g.cutOff(w, r, v.key, time.Since(arrived), encoding, stop)
	}
	return true
}

// lockFor acquires the key of v, and returns the body that the handler is to read. A
// request whose client would not be missed tries first, and reads its body only if it
// has to wait.
func (g *Guard) lockFor(v *visit, r *http.Request, body io.ReadCloser, o lock.Options) (_ io.ReadCloser, err error) {
	read := body != r.Body // ahead, by the key function or to tell equal requests
	hides := !read && hidesItsClient(r, body)
	if o.Wait > 0 && (hides || g.sharer != nil && !g.noRole) {
		deadline, wait := time.Now().Add(o.Wait), o.Wait
		o.Wait = 0
		v.lease, err = g.ask(v, o, wait)
		if !worthWaiting(err, wait) {
			return body, err
		}
		v.waited = true
		if hides {
			body = readAhead(body)
		}
		o = o.WaitUntil(deadline)
	}
	v.lease, err = g.ask(v, o, 0)
	return body, err
}

// worthWaiting says whether a request that did not get its key at once may get it if it
// waits.
func worthWaiting(err error, wait time.Duration) bool {
	if u, ok := errors.AsType[*lock.UnavailableError](err); ok {
		return u.After <= wait
	}
	return errors.Is(err, lock.ErrBusy)
}

// ask is one call of Acquire, and with a fallback a second. then is for how long the
// request asks again if it is worth it.
func (g *Guard) ask(v *visit, o lock.Options, then time.Duration) (lock.Lease, error) {
	if g.standIn != nil {
		return g.standIn.acquire(v, g.locks, v.key, o, then)
	}
	return g.locks.Acquire(v, v.key, o)
}

// withBody returns r, or a copy of it, with a body that starts again.
func withBody(r *http.Request, body io.ReadCloser) *http.Request {
	if body == r.Body {
		return r
	}
	copied := r.WithContext(r.Context())
	copied.Body = body
	return copied
}

// Interrupt asks whoever holds key, in whatever process, to stop: the context
// of its handler ends with [lock.ErrInterrupted] as the cause. It reports
// whether somebody held the key. key is what the guard's key function returns
// for the request to be stopped.
func (g *Guard) Interrupt(ctx context.Context, key string) (bool, error) {
	if g.standIn != nil {
		return g.standIn.interrupt(ctx, g.locks, key)
	}
	return g.locks.Interrupt(ctx, key)
}
