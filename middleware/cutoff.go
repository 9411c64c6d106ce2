package middleware

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// stopped is what becomes of a handler whose context has ended: its response is the
// denial, or is broken off where it was begun.
type stopped struct {
	reason Reason
	cause  error
	begun  bool
}

// cutOff ends the request of a handler that was stopped. encoding is what it was before
// that ran.
func (g *Guard) cutOff(w http.ResponseWriter, r *http.Request, key string, wait time.Duration, encoding contentEncoding, stop *stopped) {
	d := newDenial(stop.reason, 0, stop.cause)
	g.observeDenied(r, key, wait, d)
	if stop.begun {
		breakOff(w)
	}
	encoding.restore(w.Header())
	g.answer(w, r, d)
}

// reasonFor returns the reason that a handler was asked to stop for, "" where the
// cause of its context is none of the lock's: the client has gone, say.
func reasonFor(cause error) Reason {
	switch {
	case errors.Is(cause, lock.ErrLost):
		return Lost
	case errors.Is(cause, lock.ErrInterrupted):
		return Interrupted
	case errors.Is(cause, lock.ErrMaxHold):
		return MaxHold
	default:
		return ""
	}
}

// complete reports whether a response that was begun is whole, so that its
// client cannot mistake a part for the whole. One that is hijacked is nobody's
// business here.
func complete(w http.ResponseWriter, r *http.Request, p progress) bool {
	if r.Method == http.MethodHead || hijacked(w, p) {
		return true
	}
	switch p.Status() {
	case http.StatusNoContent, http.StatusNotModified:
		return true
	}
	declared, err := strconv.Atoi(w.Header().Get("Content-Length"))
	return err == nil && declared == p.Size()
}

func hijacked(w http.ResponseWriter, p progress) bool {
	if t, ok := p.(*tally); ok && t.hijacked {
		return true
	}
	// Not everything that counts knows. net/http tells on a write, and writing
	// nothing to a response that was begun changes nothing.
	_, err := w.Write(nil)
	return errors.Is(err, http.ErrHijacked)
}

// breakOff ends a response in the middle, so that the client sees an error and
// not an end. The panic alone would do in net/http, which closes the connection
// or resets the stream; the deadline is for a recovery on the way there that
// swallows the panic, as gin's does: what is written after it fails, the final
// chunk included.
func breakOff(w http.ResponseWriter) {
	_ = seal(w)
	panic(http.ErrAbortHandler)
}

// seal has nothing more written.
func seal(w http.ResponseWriter) error {
	return http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)) // not everything supports it
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
