package join_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
	"github.com/reqlock/reqlock/middleware/memlock"
)

var byUser = keyfuncs.Header("X-User")

// joining is a guard that shares responses.
func joining(opts ...join.Option) func(http.Handler) http.Handler {
	return httplock.New(memlock.New(), byUser, middleware.WithJoin(join.New(nil, opts...)), middleware.WithWait(time.Minute))
}

// ask is one of equal requests.
func ask(url string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, url, strings.NewReader(`{"prompt":"the same for all"}`))
	r.Header.Set("X-User", "u")
	return r
}

// A light writer takes a response and keeps nothing of it. It offers what net/http's own
// for HTTP/1 does.
type light struct {
	header http.Header
	wrote  func(n int) // with every Write; nil: nobody wants to know
}

func (w *light) Header() http.Header { return w.header }
func (w *light) WriteHeader(int)     {}

func (w *light) Write(p []byte) (int, error) {
	if w.wrote != nil {
		w.wrote(len(p))
	}
	return len(p), nil
}

func (w *light) WriteString(s string) (int, error)            { return w.Write([]byte(s)) }
func (w *light) ReadFrom(src io.Reader) (int64, error)        { return io.Copy(struct{ io.Writer }{w}, src) }
func (w *light) Flush()                                       {}
func (w *light) FlushError() error                            { return nil }
func (w *light) CloseNotify() <-chan bool                     { return nil }
func (w *light) SetReadDeadline(time.Time) error              { return nil }
func (w *light) SetWriteDeadline(time.Time) error             { return nil }
func (w *light) EnableFullDuplex() error                      { return nil }
func (w *light) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrNotSupported }
