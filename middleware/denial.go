package middleware

import (
	"net/http"
	"strconv"
	"time"
)

// A Denial is the answer to a request that was turned away, or whose handler
// was cut off before it had written anything.
type Denial struct {
	Reason Reason
	Status int

	// RetryAfter is when to try again: from 1 to 60 seconds with the statuses
	// 409, 429 and 503, and 0 with all others.
	RetryAfter time.Duration

	// Detail tells the client what is wrong. It never holds an internal error,
	// a key or an address.
	Detail string

	// Err is what happened, for logs only: it may name keys and hosts. It may
	// be nil.
	Err error
}

// A DenyFunc writes the response to a request that is denied. It must write
// one, since net/http makes an empty 200 out of nothing. It is called
// concurrently, each time on the goroutine of its request and when that holds
// no lock (any more).
//
// The headers that clients rely on are set before it is called, so that it
// cannot forget them:
//
//   - Cache-Control: no-store;
//   - with 409, 429 and 503: Retry-After in whole seconds, rounded up, and the
//     more exact retry-after-ms, which OpenAI's clients prefer;
//   - with [Interrupted]: x-should-retry: false, so that those clients do not
//     repeat what somebody has just stopped.
//
// What a handler that was cut off had set to describe its own body is removed.
type DenyFunc func(http.ResponseWriter, *http.Request, Denial)

// newDenial returns the denial for a reason. after only counts where the
// status is one to carry it.
func newDenial(reason Reason, after time.Duration, err error) Denial {
	d := Denial{Reason: reason, Status: reason.status(), Detail: reason.detail(), Err: err}
	switch d.Status {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		d.RetryAfter = min(max(after, minRetryAfter), maxRetryAfter)
	}
	return d
}

// setHeaders makes h ready for d's response.
func (d Denial) setHeaders(h http.Header) {
	// Left behind by a handler that was cut off; Content-Encoding is not among
	// them, see contentEncoding.
	for _, name := range [...]string{
		"Accept-Ranges", "Content-Disposition", "Content-Language", "Content-Length", "Content-Location",
		"Content-Range", "Etag", "Expires", "Last-Modified", "Trailer",
	} {
		h.Del(name)
	}
	h.Set("Cache-Control", "no-store")
	if d.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(roundUp(d.RetryAfter, time.Second), 10))
		h.Set("Retry-After-Ms", strconv.FormatInt(roundUp(d.RetryAfter, time.Millisecond), 10))
	}
	if d.Reason == Interrupted {
		h.Set("X-Should-Retry", "false")
	}
}

// roundUp returns d in whole units: an obedient client that comes back a
// fraction too early would only be turned away again.
func roundUp(d, unit time.Duration) int64 {
	return int64((d + unit - 1) / unit)
}

// contentEncoding is a response's Content-Encoding before its handler ran:
// that of a compressing middleware further out, which goes for a denial, too,
// while one that the handler has set goes for a body that never came.
type contentEncoding []string

func (before contentEncoding) restore(h http.Header) {
	if before == nil {
		h.Del("Content-Encoding")
		return
	}
	h["Content-Encoding"] = before
}
