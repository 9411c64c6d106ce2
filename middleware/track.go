package middleware

import (
	"bufio"
	"cmp"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/felixge/httpsnoop"
)

// trackAny works for every ResponseWriter there is. httpsnoop has one type for
// each combination of optional interfaces; it costs more than 20 allocations,
// so what net/http itself hands out has types of its own, see trackNetHTTP.
func trackAny(w http.ResponseWriter) (http.ResponseWriter, *tally) {
	t := new(tally)
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(status int) { next(status); t.header(status) }
		},
		Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(p []byte) (int, error) { n, err := next(p); t.body(n); return n, err }
		},
		WriteString: func(next httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc {
			return func(s string) (int, error) { n, err := next(s); t.body(n); return n, err }
		},
		ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) { n, err := next(src); t.copied(n); return n, err }
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() { next(); t.body(0) }
		},
		FlushError: func(next httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
			return func() error { err := next(); t.body(0); return err }
		},
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, rw, err := next()
				t.hijack(err)
				return conn, rw, err
			}
		},
	}), t
}

// trackUnwrapping is for a wrapper that adds nothing but Unwrap, as those that
// record a status do. Through Unwrap an http.ResponseController reaches what is
// underneath, so that is tracked as well. It returns nil for other writers.
func trackUnwrapping(w http.ResponseWriter) (http.ResponseWriter, progress) {
	u, ok := w.(unwrapper)
	if !ok {
		return nil, nil
	}
	switch w.(type) {
	case http.Flusher, flushErrorer, http.Hijacker, http.Pusher, io.ReaderFrom, io.StringWriter,
		closeNotifier, deadliner, readDeadliner, fullDuplexer:
		return nil, nil
	}
	inner, p := tracker(u.Unwrap()) // what counts there counts what goes through w as well
	t := &unwrapping{ResponseWriter: w, inner: inner, innerProgress: p}
	return t, t
}

type (
	unwrapper     interface{ Unwrap() http.ResponseWriter }
	flushErrorer  interface{ FlushError() error }
	closeNotifier interface{ CloseNotify() <-chan bool } // deprecated, and still offered
	deadliner     interface{ SetWriteDeadline(time.Time) error }
	readDeadliner interface{ SetReadDeadline(time.Time) error }
	fullDuplexer  interface{ EnableFullDuplex() error }
)

// unwrapping counts what goes through its wrapper, and past it.
type unwrapping struct {
	http.ResponseWriter
	tally         tally
	inner         http.ResponseWriter
	innerProgress progress
}

func (w *unwrapping) Unwrap() http.ResponseWriter { return w.inner }

func (w *unwrapping) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	w.tally.header(status)
}

func (w *unwrapping) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.tally.body(n)
	return n, err
}

func (w *unwrapping) Written() bool { return w.tally.Written() || w.innerProgress.Written() }
func (w *unwrapping) Size() int     { return w.tally.Size() + w.innerProgress.Size() }
func (w *unwrapping) Status() int   { return cmp.Or(w.tally.Status(), w.innerProgress.Status()) }

// netHTTP is what the ResponseWriters of net/http have in common.
type netHTTP interface {
	http.ResponseWriter
	io.StringWriter
	http.Flusher
	FlushError() error
	CloseNotify() <-chan bool
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	EnableFullDuplex() error
}

// trackNetHTTP returns nil where w offers anything else than one of net/http's
// own writers does: for HTTP/1 netHTTP, Hijacker and ReaderFrom, for HTTP/2
// netHTTP and Pusher.
func trackNetHTTP(w http.ResponseWriter) (http.ResponseWriter, *tally) {
	base, ok := w.(netHTTP)
	if !ok {
		return nil, nil
	}
	hijacker, hijacks := w.(http.Hijacker)
	readerFrom, readsFrom := w.(io.ReaderFrom)
	pusher, pushes := w.(http.Pusher)
	switch {
	case hijacks && readsFrom && !pushes:
		t := &http1{tracked{netHTTP: base}, hijacker, readerFrom}
		return t, &t.tally
	case pushes && !hijacks && !readsFrom:
		t := &http2{tracked{netHTTP: base}, pusher}
		return t, &t.tally
	default:
		return nil, nil
	}
}

type tracked struct {
	netHTTP
	tally tally // not embedded: its methods are not the handler's
}

func (w *tracked) Unwrap() http.ResponseWriter { return w.netHTTP }
func (w *tracked) WriteHeader(status int)      { w.netHTTP.WriteHeader(status); w.tally.header(status) }
func (w *tracked) Flush()                      { w.netHTTP.Flush(); w.tally.body(0) }

func (w *tracked) FlushError() error {
	err := w.netHTTP.FlushError()
	w.tally.body(0)
	return err
}

func (w *tracked) Write(p []byte) (int, error) {
	n, err := w.netHTTP.Write(p)
	w.tally.body(n)
	return n, err
}

func (w *tracked) WriteString(s string) (int, error) {
	n, err := w.netHTTP.WriteString(s)
	w.tally.body(n)
	return n, err
}

type http1 struct {
	tracked
	hijacker   http.Hijacker
	readerFrom io.ReaderFrom
}

func (w *http1) ReadFrom(src io.Reader) (int64, error) {
	n, err := w.readerFrom.ReadFrom(src)
	w.tally.copied(n)
	return n, err
}

func (w *http1) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.hijacker.Hijack()
	w.tally.hijack(err)
	return conn, rw, err
}

type http2 struct {
	tracked
	http.Pusher
}
