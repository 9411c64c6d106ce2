package ginlock

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// A writer is gin's ResponseWriter for a response that others share, which goes through
// the guard's: like gin's own it notes a status that comes without a body.
type writer struct {
	http.ResponseWriter // the guard's
	gin                 gin.ResponseWriter
	ctx                 context.Context // of the request
	status              int
	size                int // -1: not written
}

var _ gin.ResponseWriter = (*writer)(nil)

func newWriter(guarded http.ResponseWriter, c *gin.Context) *writer {
	return &writer{guarded, c.Writer, c.Request.Context(), c.Writer.Status(), -1}
}

func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
func (w *writer) Status() int                 { return w.status }
func (w *writer) Size() int                   { return w.size }
func (w *writer) Written() bool               { return w.size >= 0 }
func (w *writer) Pusher() http.Pusher         { return w.gin.Pusher() }

func (w *writer) WriteHeader(status int) {
	switch {
	case status >= 100 && status <= 199 && status != http.StatusSwitchingProtocols:
		w.ResponseWriter.WriteHeader(status)
	case status > 0 && !w.Written():
		w.status = status
	}
}

func (w *writer) WriteHeaderNow() {
	if !w.Written() {
		w.size = 0
		w.ResponseWriter.WriteHeader(w.status)
	}
}

func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeaderNow()
	n, err := w.ResponseWriter.Write(p)
	w.size += n
	return n, err
}

func (w *writer) WriteString(s string) (int, error) {
	w.WriteHeaderNow()
	n, err := io.WriteString(w.ResponseWriter, s)
	w.size += n
	return n, err
}

func (w *writer) Flush() {
	w.WriteHeaderNow()
	_ = http.NewResponseController(w.ResponseWriter).Flush() // not everything supports it
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.size > 0 {
		return nil, nil, errors.New("ginlock: hijack: the body has begun")
	}
	w.size = 0
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// CloseNotify tells that nobody waits for the response any more.
func (w *writer) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(w.ctx, func() { gone <- true })
	return gone
}

// end is for handlers that have returned. A status without a body is still on its way
// unless they have left an error for a handler further out to answer.
func (w *writer) end(unanswered bool) {
	switch {
	case w.Written():
	case unanswered:
		w.gin.WriteHeader(w.status)
	default:
		w.WriteHeaderNow()
	}
}
