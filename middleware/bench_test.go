package middleware_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
)

// BenchmarkServe is what a Guard costs beside its Locker.
func BenchmarkServe(b *testing.B) {
	g := newGuard(b, &stub{})
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, p := range protocols {
		b.Run(p.name, func(b *testing.B) {
			srv := serve(b, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b.ReportAllocs()
				for b.Loop() {
					g.Serve(w, r, next)
				}
			}))
			resp, err := srv.Client().Do(request(b, http.MethodPost, srv.URL))
			if err != nil {
				b.Fatal(err)
			}
			resp.Body.Close()
		})
	}
}

// BenchmarkUnjoined is what it costs that a response can be joined, where nobody does.
func BenchmarkUnjoined(b *testing.B) {
	text := make([]byte, 1<<10)
	for _, response := range []struct {
		name string
		http.HandlerFunc
	}{
		{"empty", nothing},
		{"1KiB", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }},
		{"flushed", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(text)
			w.(http.Flusher).Flush()
		}},
	} {
		for _, guard := range []struct {
			name string
			opts []middleware.Option
		}{
			{"guard", nil},
			{"join", []middleware.Option{middleware.WithJoin(join.New(nil))}},
		} {
			b.Run(response.name+"/"+guard.name, func(b *testing.B) {
				g := newGuard(b, &stub{}, guard.opts...)
				r, w := request(b, http.MethodPost, "/"), bare{make(http.Header)}
				b.ReportAllocs()
				for b.Loop() {
					clear(w.header)
					g.Serve(w, r, response)
				}
			})
		}
	}
}

// A bare writer offers what net/http's own for HTTP/1 does, and does nothing.
type bare struct{ header http.Header }

func (w bare) Header() http.Header                          { return w.header }
func (w bare) WriteHeader(int)                              {}
func (w bare) Write(p []byte) (int, error)                  { return len(p), nil }
func (w bare) WriteString(s string) (int, error)            { return len(s), nil }
func (w bare) ReadFrom(src io.Reader) (int64, error)        { return io.Copy(io.Discard, src) }
func (w bare) Flush()                                       {}
func (w bare) FlushError() error                            { return nil }
func (w bare) CloseNotify() <-chan bool                     { return nil }
func (w bare) SetReadDeadline(time.Time) error              { return nil }
func (w bare) SetWriteDeadline(time.Time) error             { return nil }
func (w bare) EnableFullDuplex() error                      { return nil }
func (w bare) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrNotSupported }
