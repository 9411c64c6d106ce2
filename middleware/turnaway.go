package middleware

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// statusClientClosedRequest is what nginx logs for a client that has left.
const statusClientClosedRequest = 499

// turnAway ends a request whose handler has not run.
func (g *Guard) turnAway(w http.ResponseWriter, r *http.Request, d Denial, key string, wait time.Duration) {
	if !clientLeft(r.Context()) {
		g.observeDenied(r, key, wait, d)
		g.answer(w, r, d)
		return
	}
	g.observer(r.Context(), lock.Abandoned{Key: key, Wait: wait})
	// Nobody reads this, unless a middleware further out has ended the
	// context: an empty 200 would then say that the work was done.
	w.WriteHeader(statusClientClosedRequest)
}

// clientLeft tells a client that has gone from a deadline that a middleware has
// set, and from a server that ends its requests, where the client still waits
// for an answer. net/http cancels the context of a client that has gone, and
// gives no cause.
func clientLeft(ctx context.Context) bool {
	return ctx.Err() != nil && context.Cause(ctx) == context.Canceled
}

// lockDenial is the answer where Acquire with ctx returned err.
func (g *Guard) lockDenial(ctx context.Context, err error, wait time.Duration) Denial {
	ahead := 1
	if busy, ok := errors.AsType[*lock.BusyError](err); ok {
		ahead = busy.Ahead
	}
	switch {
	case errors.Is(err, lock.ErrBusy):
		return newDenial(Busy, g.retryAfter(ahead, wait), err)
	case errors.Is(err, lock.ErrQueueFull):
		return newDenial(QueueFull, g.retryAfter(ahead, wait), err)
	case errors.Is(err, lock.ErrUnavailable):
		var after time.Duration
		if outage, ok := errors.AsType[*lock.UnavailableError](err); ok {
			after = outage.After
		}
		return newDenial(Unavailable, after, err)
	case reasonFor(err) != "": // a lease further out has ended, or that of the Locker while the fallback's was waited for
		return newDenial(reasonFor(err), 0, err)
	case ctx.Err() == context.DeadlineExceeded: // one that came before WithWait's
		return newDenial(Busy, g.retryAfter(ahead, wait), err)
	default:
		return newDenial(Unavailable, 0, err)
	}
}

// retryAfter goes by what holders usually take. What is held for longer than
// that, or by a holder of which this process knows nothing, can be expected to
// last about as long again as it was waited for.
func (g *Guard) retryAfter(ahead int, wait time.Duration) time.Duration {
	return max(g.holds.estimate(ahead), wait)
}

func (g *Guard) observeDenied(r *http.Request, key string, wait time.Duration, d Denial) {
	g.observer(r.Context(), lock.Denied{Key: key, Reason: string(d.Reason), Wait: wait, Err: d.Err})
}

// answer writes d's response.
func (g *Guard) answer(w http.ResponseWriter, r *http.Request, d Denial) {
	d.setHeaders(w.Header())
	w, sent := track(w)
	before := sent.Status()
	g.deny(w, r, d)
	if !sent.Written() && sent.Status() == before { // gin only notes a status without a body
		w.WriteHeader(d.Status) // net/http would make an empty 200 of it
	}
}
