package ginlock

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
)

// New returns the handler for a [middleware.Guard] of its own. It panics, with
// an error that lists all of it, on what [middleware.NewGuard] refuses.
func New(l lock.Locker, key keyfuncs.Func, opts ...middleware.Option) gin.HandlerFunc {
	g, err := middleware.NewGuard(l, key, opts...)
	if err != nil {
		panic(fmt.Errorf("ginlock: New: %w", err))
	}
	return Wrap(g)
}

// Wrap returns the handler for a Guard that is used elsewhere, too: by another
// route, or to interrupt. It panics where g is nil.
//
// The handlers after it run on gin's goroutine, inside of the call. Of a
// request that is denied none runs.
func Wrap(g *middleware.Guard) gin.HandlerFunc {
	if g == nil {
		panic("ginlock: Wrap: the Guard is nil")
	}
	return func(c *gin.Context) {
		if c.FullPath() == "" {
			c.Next()
			return
		}
		writer, request := c.Writer, c.Request
		guarded := Request(c)
		defer func() {
			c.Writer, c.Request = writer, request
			request.MultipartForm = guarded.MultipartForm // so that net/http removes its files
		}()

		next := &handlers{c: c}
		if !g.Serve(writer, guarded, next) {
			c.Abort()
		}
		if next.written {
			writer.WriteHeaderNow() // a header without a body has not come to it
		}
	}
}

// handlers are those after the guard.
type handlers struct {
	c          *gin.Context
	unanswered bool
	written    bool
}

func (h *handlers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.c.Request = r
	if own, ok := w.(gin.ResponseWriter); ok { // the Guard hands it on, since it keeps count itself
		h.c.Writer = own
		h.c.Next()
		return
	}
	before := len(h.c.Errors)
	shared := newWriter(w, h.c)
	h.c.Writer = shared
	h.c.Next()
	h.unanswered = !shared.end(len(h.c.Errors) > before)
	h.written = shared.Written()
}

// Unanswered tells the Guard that there is no response to share: a handler further out
// answers for these.
func (h *handlers) Unanswered() bool { return h.unanswered }
