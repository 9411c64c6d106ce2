package ginlock

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// A writer is gin's ResponseWriter for a response that others share, which goes through
// the guard's. Like gin's own it only notes a status until something is written.
//
// A header that is written without a body is held back, since that may still be for a
// handler further out to write: c.AbortWithError leaves it to that.
type writer struct {
	http.ResponseWriter // the guard's
	gin                 gin.ResponseWriter
	ctx                 context.Context // of the request
	status              int
	noted               bool        // the handlers have set status
	size                int         // -1: not written
	held                http.Header // that was written; nil: it is not held back
	begun               bool        // the guard's response has
}

var _ gin.ResponseWriter = (*writer)(nil)

func newWriter(guarded http.ResponseWriter, c *gin.Context) *writer {
	return &writer{ResponseWriter: guarded, gin: c.Writer, ctx: c.Request.Context(), status: c.Writer.Status(), size: -1}
}

func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
func (w *writer) Status() int                 { return w.status }
func (w *writer) Size() int                   { return w.size }
func (w *writer) Written() bool               { return w.size >= 0 }
func (w *writer) Pusher() http.Pusher         { return w.gin.Pusher() }

func (w *writer) WriteHeader(status int) {
	if status > 0 && !w.Written() {
		w.status, w.noted = status, true
	}
}

func (w *writer) WriteHeaderNow() {
	switch {
	case w.Written():
	case informational(w.status): // gin takes it for the final one, net/http does not
		w.size = 0
		w.ResponseWriter.WriteHeader(w.status)
		w.gin.WriteHeaderNow()
	default:
		w.size = 0
		w.held = w.Header().Clone()
	}
}

// begin is for what is written after the header.
func (w *writer) begin() {
	switch {
	case w.held != nil:
		late := maps.Clone(w.Header())
		replace(w.Header(), w.held)
		w.held = nil
		w.ResponseWriter.WriteHeader(w.status)
		w.gin.WriteHeaderNow() // nothing else uses it before there is a body
		replace(w.Header(), late)
	case !w.Written():
		w.size = 0
		w.ResponseWriter.WriteHeader(w.status)
	}
	w.begun = true
}

// replace has h, which others have as well, be like another one.
func replace(h, with http.Header) {
	clear(h)
	maps.Copy(h, with)
}

func informational(status int) bool {
	return status >= 100 && status <= 199 && status != http.StatusSwitchingProtocols
}

func (w *writer) Write(p []byte) (int, error) {
	w.begin()
	n, err := w.ResponseWriter.Write(p)
	w.size += n
	return n, err
}

func (w *writer) WriteString(s string) (int, error) {
	w.begin()
	n, err := io.WriteString(w.ResponseWriter, s)
	w.size += n
	return n, err
}

func (w *writer) Flush() {
	w.begin()
	_ = http.NewResponseController(w.ResponseWriter).Flush() // not everything supports it
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.size > 0 {
		return nil, nil, errors.New("ginlock: hijack: the body has begun")
	}
	if w.Written() {
		w.begin()
	}
	w.size, w.begun = 0, true
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// CloseNotify tells that nobody waits for the response any more, or that the handlers are
// to stop.
func (w *writer) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(w.ctx, func() { gone <- true })
	return gone
}

// end is for handlers that have returned, with or without an error. It says whether they
// leave a response to share. An error without a body is for a handler further out to
// answer, and so is nothing at all: it is left to that in gin's own writer.
func (w *writer) end(failed bool) (answered bool) {
	switch {
	case w.begun:
	case failed, !w.Written() && !w.noted:
		w.gin.WriteHeader(w.status)
		if w.held != nil {
			replace(w.Header(), w.held)
		}
		return false
	case w.Written():
		w.begin()
	case w.ctx.Err() != nil: // a status alone does not keep the guard from answering
		w.gin.WriteHeader(w.status)
	default:
		w.ResponseWriter.WriteHeader(w.status)
	}
	return true
}
