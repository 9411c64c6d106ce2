package main

import (
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"
)

const (
	// writeTimeout is how long a client may take for a piece of what is sent to it. One
	// that has stalled must keep neither its session nor its connection busy.
	writeTimeout = time.Minute
	writePiece   = 64 << 10
)

// limitStalls breaks responses off whose client takes less than a piece in the timeout.
//
// It is not the handler that sets the deadlines: what it writes is for all that wait for
// the same answer, and it may be ahead of each of them.
func limitStalls(timeout time.Duration) gin.HandlerFunc {
	return func(c *gin.Context) {
		w := &limitedWriter{c.Writer, http.NewResponseController(c.Writer), timeout}
		c.Writer = w
		c.Next() // the deadline stays for what net/http has left to send
	}
}

// A limitedWriter has a deadline for each piece that it writes.
type limitedWriter struct {
	gin.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
}

func (w *limitedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *limitedWriter) extend() { _ = w.rc.SetWriteDeadline(time.Now().Add(w.timeout)) }

func (w *limitedWriter) Write(p []byte) (n int, err error) {
	w.WriteHeaderNow()
	for piece := range slices.Chunk(p, writePiece) {
		w.extend()
		k, err := w.ResponseWriter.Write(piece)
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (w *limitedWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w *limitedWriter) Flush() {
	w.extend()
	w.ResponseWriter.Flush()
}
