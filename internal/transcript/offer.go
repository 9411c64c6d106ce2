package transcript

import (
	"io"
	"net/http"
	"time"
)

// What a ResponseWriter may be asked for by type, so that response must not have it where
// w does not. The deprecated http.CloseNotifier is not offered: the context of the request
// tells the same. Deadlines and full duplex are asked for through an
// [http.ResponseController], which finds them below.
type (
	flusher interface {
		http.Flusher
		flushErrorer
	}
	flushErrorer interface{ FlushError() error }
	hijacker     = http.Hijacker
	readerFrom   = io.ReaderFrom
	pusher       = http.Pusher
)

// offer returns r with the optional interfaces that w has.
func offer(r *response, w http.ResponseWriter) http.ResponseWriter {
	const f, h, c, p = 1, 2, 4, 8
	has := 0
	if is[http.Flusher](w) || is[flushErrorer](w) {
		has |= f
	}
	if is[hijacker](w) {
		has |= h
	}
	if is[readerFrom](w) {
		has |= c
	}
	if is[pusher](w) {
		has |= p
	}
	b := plain{r, below(r, w)}
	switch has {
	case f:
		return struct {
			plain
			flusher
		}{b, r}
	case h:
		return struct {
			plain
			hijacker
		}{b, r}
	case c:
		return struct {
			plain
			readerFrom
		}{b, r}
	case p:
		return struct {
			plain
			pusher
		}{b, r}
	case f | h:
		return struct {
			plain
			flusher
			hijacker
		}{b, r, r}
	case f | c:
		return struct {
			plain
			flusher
			readerFrom
		}{b, r, r}
	case f | p:
		return struct {
			plain
			flusher
			pusher
		}{b, r, r}
	case h | c:
		return struct {
			plain
			hijacker
			readerFrom
		}{b, r, r}
	case h | p:
		return struct {
			plain
			hijacker
			pusher
		}{b, r, r}
	case c | p:
		return struct {
			plain
			readerFrom
			pusher
		}{b, r, r}
	case f | h | c:
		return struct {
			plain
			flusher
			hijacker
			readerFrom
		}{b, r, r, r}
	case f | h | p:
		return struct {
			plain
			flusher
			hijacker
			pusher
		}{b, r, r, r}
	case f | c | p:
		return struct {
			plain
			flusher
			readerFrom
			pusher
		}{b, r, r, r}
	case h | c | p:
		return struct {
			plain
			hijacker
			readerFrom
			pusher
		}{b, r, r, r}
	case f | h | c | p:
		return struct {
			plain
			flusher
			hijacker
			readerFrom
			pusher
		}{b, r, r, r, r}
	default:
		return b
	}
}

func is[T any](w http.ResponseWriter) bool {
	_, ok := w.(T)
	return ok
}

// plain has of r what every ResponseWriter has.
type plain struct {
	r     *response
	below http.ResponseWriter
}

func (w plain) Header() http.Header               { return w.r.Header() }
func (w plain) WriteHeader(status int)            { w.r.WriteHeader(status) }
func (w plain) Write(p []byte) (int, error)       { return w.r.Write(p) }
func (w plain) WriteString(s string) (int, error) { return w.r.WriteString(s) }

// How far the response has come a guard need not find out with a wrapper of its own.

func (w plain) Written() bool { return w.r.status != 0 || w.r.taken }
func (w plain) Status() int   { return w.r.status }
func (w plain) Size() int     { return w.r.size }

// Unwrap is for an http.ResponseController that looks for what w does not have itself, but
// has further down.
func (w plain) Unwrap() http.ResponseWriter { return w.below }

// below returns what has of w what only an http.ResponseController finds. What writes
// goes through r there, too.
func below(r *response, w http.ResponseWriter) http.ResponseWriter {
	c := controls{plain{r: r}, http.NewResponseController(w)}
	flushes := reaches[flushErrorer](w) || reaches[http.Flusher](w)
	hijacks := reaches[hijacker](w)
	switch {
	case flushes && hijacks:
		return struct {
			controls
			flusher
			hijacker
		}{c, r, r}
	case flushes:
		return struct {
			controls
			flusher
		}{c, r}
	case hijacks:
		return struct {
			controls
			hijacker
		}{c, r}
	default:
		return c
	}
}

// reaches says whether w, or what it unwraps to, has T.
func reaches[T any](w http.ResponseWriter) bool {
	for {
		if is[T](w) {
			return true
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = u.Unwrap()
	}
}

// controls are asked of the connection of w.
type controls struct {
	http.ResponseWriter
	of *http.ResponseController
}

func (c controls) SetReadDeadline(t time.Time) error  { return c.of.SetReadDeadline(t) }
func (c controls) SetWriteDeadline(t time.Time) error { return c.of.SetWriteDeadline(t) }
func (c controls) EnableFullDuplex() error            { return c.of.EnableFullDuplex() }
