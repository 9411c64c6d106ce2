package middleware_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/memlock"
)

// The optional interfaces of a ResponseWriter, each with a name.
var optional = []struct {
	name string
	has  func(http.ResponseWriter) bool
}{
	{"Flusher", func(w http.ResponseWriter) bool { _, ok := w.(http.Flusher); return ok }},
	{"FlushError", func(w http.ResponseWriter) bool { _, ok := w.(interface{ FlushError() error }); return ok }},
	{"Hijacker", func(w http.ResponseWriter) bool { _, ok := w.(http.Hijacker); return ok }},
	{"ReaderFrom", func(w http.ResponseWriter) bool { _, ok := w.(io.ReaderFrom); return ok }},
	{"StringWriter", func(w http.ResponseWriter) bool { _, ok := w.(io.StringWriter); return ok }},
	{"Pusher", func(w http.ResponseWriter) bool { _, ok := w.(http.Pusher); return ok }},
	{"CloseNotifier", func(w http.ResponseWriter) bool { _, ok := w.(interface{ CloseNotify() <-chan bool }); return ok }},
	{"deadlines", func(w http.ResponseWriter) bool { _, ok := w.(deadliner); return ok }},
	{"EnableFullDuplex", func(w http.ResponseWriter) bool { _, ok := w.(fullDuplexer); return ok }},
}

type (
	deadliner interface {
		SetReadDeadline(time.Time) error
		SetWriteDeadline(time.Time) error
	}
	fullDuplexer  interface{ EnableFullDuplex() error }
	closeNotifier interface{ CloseNotify() <-chan bool }
	flushErrorer  interface{ FlushError() error }

	// netHTTP is what net/http's writers have in common.
	netHTTP interface {
		http.ResponseWriter
		http.Flusher
		io.StringWriter
		flushErrorer
		closeNotifier
		deadliner
		fullDuplexer
	}
)

// everything has all of the methods, for others to take from.
type everything struct{ http.ResponseWriter }

func (everything) Flush()                                       {}
func (everything) FlushError() error                            { return nil }
func (everything) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }
func (everything) ReadFrom(r io.Reader) (int64, error)          { return io.Copy(io.Discard, r) }
func (everything) WriteString(s string) (int, error)            { return len(s), nil }
func (everything) Push(string, *http.PushOptions) error         { return nil }
func (everything) CloseNotify() <-chan bool                     { return nil }
func (everything) SetReadDeadline(time.Time) error              { return nil }
func (everything) SetWriteDeadline(time.Time) error             { return nil }
func (everything) EnableFullDuplex() error                      { return nil }

// A handler finds the interfaces that the writer underneath offers, no more
// and no less.
func TestH31_OptionalInterfaces(t *testing.T) {
	type (
		W = http.ResponseWriter
		F = http.Flusher
		H = http.Hijacker
		R = io.ReaderFrom
		P = http.Pusher
	)
	e := everything{httptest.NewRecorder()}
	writers := []http.ResponseWriter{
		struct{ W }{e},
		struct {
			W
			F
		}{e, e},
		struct {
			W
			H
		}{e, e},
		struct {
			W
			F
			H
		}{e, e, e},
		struct {
			W
			R
		}{e, e},
		struct {
			W
			F
			R
		}{e, e, e},
		struct {
			W
			H
			R
		}{e, e, e},
		struct {
			W
			F
			H
			R
		}{e, e, e, e},
		struct {
			W
			P
		}{e, e},
		struct {
			W
			F
			P
		}{e, e, e},
		struct {
			W
			H
			P
		}{e, e, e},
		struct {
			W
			F
			H
			P
		}{e, e, e, e},
		struct {
			W
			R
			P
		}{e, e, e},
		struct {
			W
			F
			R
			P
		}{e, e, e, e},
		struct {
			W
			H
			R
			P
		}{e, e, e, e},
		struct {
			W
			F
			H
			R
			P
		}{e, e, e, e, e},
		struct {
			W
			io.StringWriter
		}{e, e},
		struct {
			W
			flushErrorer
		}{e, e},
		struct {
			W
			closeNotifier
		}{e, e},
		struct {
			W
			deadliner
		}{e, e},
		struct {
			W
			fullDuplexer
		}{e, e},
		struct{ netHTTP }{e},
		struct {
			netHTTP
			H
		}{e, e},
		struct {
			netHTTP
			R
		}{e, e},
		struct {
			netHTTP
			P
		}{e, e},
		struct {
			netHTTP
			H
			R
		}{e, e, e},
		struct {
			netHTTP
			H
			P
		}{e, e, e},
		struct {
			netHTTP
			R
			P
		}{e, e, e},
		struct {
			netHTTP
			H
			R
			P
		}{e, e, e, e},
		httptest.NewRecorder(),
	}
	for _, w := range writers {
		t.Run(fmt.Sprintf("%T", w), func(t *testing.T) { requireSameInterfaces(t, w) })
	}
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			srv := serve(t, p, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requireSameInterfaces(t, w)
			}))
			resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		})
	}
}

func requireSameInterfaces(t *testing.T, w http.ResponseWriter) {
	ran := newGuard(t, memlock.New()).Serve(w, request(t, http.MethodPost, "/"), http.HandlerFunc(func(given http.ResponseWriter, _ *http.Request) {
		for _, o := range optional {
			assert.Equal(t, o.has(w), o.has(given), o.name)
		}
		u, ok := given.(interface{ Unwrap() http.ResponseWriter })
		if assert.True(t, ok, "Unwrap") {
			assert.Equal(t, w, u.Unwrap())
		}
	}))
	assert.True(t, ran)
}

// Early hints come before the response, they are not it. (That a handler which
// only sent those is still answered for is in TestCutOffBeforeAnythingWasWritten.)
func TestH32_EarlyHints(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			srv := guarded(t, p, newGuard(t, memlock.New()), func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Link", "</style.css>; rel=preload")
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusCreated)
				write(w, "made")
			})
			var informational []int
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
				informational = append(informational, code)
				return nil
			}})
			resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL).WithContext(ctx))
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, []int{http.StatusEarlyHints}, informational)
			assert.Equal(t, http.StatusCreated, resp.StatusCode)
			assert.Equal(t, "made", string(body))
		})
	}
}

// The next token is only written once the client has read the one before.
func TestA28_TokensArriveOneByOne(t *testing.T) {
	tokens := strings.Fields("one two three four five")
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			arrived := make(chan string)
			srv := guarded(t, p, newGuard(t, memlock.New()), func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for _, token := range tokens {
					write(w, "data: "+token+"\n\n")
					w.(http.Flusher).Flush()
					select {
					case got := <-arrived:
						assert.Equal(t, token, got)
					case <-r.Context().Done():
						return
					}
				}
			})
			resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
			require.NoError(t, err)
			defer resp.Body.Close()
			lines := bufio.NewScanner(resp.Body)
			count := 0
			for lines.Scan() {
				if token, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
					arrived <- token
					count++
				}
			}
			require.NoError(t, lines.Err())
			assert.Equal(t, len(tokens), count)
		})
	}
}
