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
	Status int // of the response, as its Reason has it

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
