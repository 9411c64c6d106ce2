package join_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// An offer is what a ResponseWriter can do besides writing.
type offer struct{ Flusher, Hijacker, ReaderFrom, Pusher, Flushes, Hijacks bool }

func offered(w http.ResponseWriter) (o offer) {
	_, o.Flusher = w.(http.Flusher)
	_, o.Hijacker = w.(http.Hijacker)
	_, o.ReaderFrom = w.(io.ReaderFrom)
	_, o.Pusher = w.(http.Pusher)
	o.Flushes = !errors.Is(http.NewResponseController(w).Flush(), http.ErrNotSupported)
	conn, _, err := http.NewResponseController(w).Hijack()
	if conn != nil {
		_ = conn.Close()
	}
	o.Hijacks = !errors.Is(err, http.ErrNotSupported)
	return o
}

// bare is a ResponseWriter and no more, with the optional methods in types of their own.
type (
	bare     struct{ w *httptest.ResponseRecorder }
	flusher  struct{}
	hijacker struct{}
	reader   struct{ w io.Writer }
	pusher   struct{}
	unwraps  struct{ of http.ResponseWriter }
)

func (b bare) Header() http.Header         { return b.w.Header() }
func (b bare) Write(p []byte) (int, error) { return b.w.Write(p) }
func (b bare) WriteHeader(status int)      { b.w.WriteHeader(status) }

func (flusher) Flush() {}
func (hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.New("hijacked")
}
func (r reader) ReadFrom(src io.Reader) (int64, error) { return io.Copy(r.w, src) }
func (pusher) Push(string, *http.PushOptions) error    { return nil }
func (u unwraps) Unwrap() http.ResponseWriter          { return u.of }
func (u unwraps) Header() http.Header                  { return u.of.Header() }
func (u unwraps) Write(p []byte) (int, error)          { return u.of.Write(p) }
func (u unwraps) WriteHeader(status int)               { u.of.WriteHeader(status) }

func TestH31OfferedAsUnderneath(t *testing.T) {
	b := bare{httptest.NewRecorder()}
	f, h, r, p := flusher{}, hijacker{}, reader{b}, pusher{}
	tests := []struct {
		name string
		w    http.ResponseWriter
	}{
		{"bare", b},
		{"F", struct {
			bare
			flusher
		}{b, f}},
		{"H", struct {
			bare
			hijacker
		}{b, h}},
		{"R", struct {
			bare
			reader
		}{b, r}},
		{"P", struct {
			bare
			pusher
		}{b, p}},
		{"FH", struct {
			bare
			flusher
			hijacker
		}{b, f, h}},
		{"FR", struct {
			bare
			flusher
			reader
		}{b, f, r}},
		{"FP", struct {
			bare
			flusher
			pusher
		}{b, f, p}},
		{"HR", struct {
			bare
			hijacker
			reader
		}{b, h, r}},
		{"HP", struct {
			bare
			hijacker
			pusher
		}{b, h, p}},
		{"RP", struct {
			bare
			reader
			pusher
		}{b, r, p}},
		{"FHR", struct {
			bare
			flusher
			hijacker
			reader
		}{b, f, h, r}},
		{"FHP", struct {
			bare
			flusher
			hijacker
			pusher
		}{b, f, h, p}},
		{"FRP", struct {
			bare
			flusher
			reader
			pusher
		}{b, f, r, p}},
		{"HRP", struct {
			bare
			hijacker
			reader
			pusher
		}{b, h, r, p}},
		{"FHRP", struct {
			bare
			flusher
			hijacker
			reader
			pusher
		}{b, f, h, r, p}},
	}
	run := func(t *testing.T, w http.ResponseWriter) {
		var got offer
		guard := httplock.New(memlock.New(), keyfuncs.Const("k"), middleware.WithJoin(join.New(nil)))
		guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { got = offered(w) })).
			ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		assert.Equal(t, offered(w), got)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { run(t, tt.w) })
		t.Run("unwraps to "+tt.name, func(t *testing.T) { run(t, unwraps{tt.w}) })
	}
}

func TestH31OfferedAsByNetHTTP(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		offers := make(chan offer, 1)
		p.handler = func(w http.ResponseWriter, _ *http.Request) { offers <- offered(w) }
		server := startServer(t, p, p.handler)
		if resp, err := server.Client().Get(server.URL); err == nil {
			_ = resp.Body.Close()
		}
		plain := <-offers
		s := serve(t, p)
		_, _ = s.send(s.get("")).rest()
		assert.Equal(t, plain, <-offers)
		assert.Equal(t, offer{Flusher: true, Hijacker: !p.http2, ReaderFrom: !p.http2, Pusher: p.http2, Flushes: true, Hijacks: !p.http2}, plain)
	})
}

// Deadlines and full duplex are reached as well.
func TestH31ResponseController(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		s := serve(t, p)
		v, c := s.lead(s.get(""))
		c.do(func(w http.ResponseWriter, _ *http.Request) {
			out := http.NewResponseController(w)
			assert.NoError(t, out.SetReadDeadline(time.Time{}))
			assert.NoError(t, out.SetWriteDeadline(time.Time{}))
			assert.NoError(t, out.EnableFullDuplex())
			assert.NoError(t, out.Flush())
		})
		c.end()
		assert.Empty(t, v.whole())
	})
}
