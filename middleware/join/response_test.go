package join_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/join"
)

// An answer is what a client gets.
type answer struct {
	status  int
	header  http.Header
	body    string
	trailer http.Header
	broken  bool
}

func (v *visitor) answer() (a answer) {
	body, err := v.rest()
	a.body, a.broken = body, err != nil
	if v.err != nil {
		return a
	}
	a.status, a.header, a.trailer = v.resp.StatusCode, v.resp.Header, v.resp.Trailer
	a.header.Del("Date")
	a.header.Del("X-Reqlock")
	return a
}

// Leader and follower get what the handler's client gets without the guard.
func TestEveryResponseIsAsWithoutTheGuard(t *testing.T) {
	write := func(w io.Writer, text string) { _, _ = io.WriteString(w, text) }
	flush := func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
	tests := []struct {
		name, method string
		handler      func(http.ResponseWriter)
	}{
		{"nothing", "GET", func(http.ResponseWriter) {}},
		{"header only", "GET", func(w http.ResponseWriter) { w.Header().Set("X-A", "a") }},
		{"status only", "GET", func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) }},
		{"flush only", "GET", func(w http.ResponseWriter) { flush(w) }},
		{"empty write", "GET", func(w http.ResponseWriter) { _, _ = w.Write(nil) }},
		{"text", "GET", func(w http.ResponseWriter) { write(w, "text") }},
		{"sniffed type", "GET", func(w http.ResponseWriter) { write(w, "<ht"); write(w, "ml>") }},
		{"sniffed type flushed", "GET", func(w http.ResponseWriter) { write(w, "<html>"); flush(w); write(w, "more") }},
		{"no type", "GET", func(w http.ResponseWriter) { w.Header()["Content-Type"] = nil; write(w, "<html>") }},
		{"long", "GET", func(w http.ResponseWriter) { write(w, strings.Repeat("0123456789", 5000)) }},
		{"error", "GET", func(w http.ResponseWriter) { http.Error(w, "upstream", http.StatusBadGateway) }},
		{"redirect", "GET", func(w http.ResponseWriter) {
			w.Header().Set("X-L", "/")
			w.WriteHeader(http.StatusSeeOther)
			write(w, "see")
		}},
		{"second status", "GET", func(w http.ResponseWriter) { w.WriteHeader(http.StatusCreated); w.WriteHeader(http.StatusTeapot) }},
		{"changed too late", "GET", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusOK)
			w.Header().Set("X-A", "a")
			write(w, "text")
		}},
		{"lines of a header", "GET", func(w http.ResponseWriter) { w.Header()["Link"] = []string{"</a>", "</b>, </c>"}; write(w, "text") }},
		{"204", "GET", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }},
		{"204 with a body", "GET", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent); write(w, "text") }},
		{"304", "GET", func(w http.ResponseWriter) { w.Header().Set("Etag", `"a"`); w.WriteHeader(http.StatusNotModified) }},
		{"HEAD", "HEAD", func(w http.ResponseWriter) { write(w, "text") }},
		{"HEAD with length", "HEAD", func(w http.ResponseWriter) { w.Header().Set("Content-Length", "1000") }},
		{"HEAD long", "HEAD", func(w http.ResponseWriter) { write(w, strings.Repeat("0123456789", 5000)) }},
		{"HEAD flushed", "HEAD", func(w http.ResponseWriter) { write(w, "text"); flush(w) }},
		{"POST", "POST", func(w http.ResponseWriter) { write(w, "text") }},
		{"length", "GET", func(w http.ResponseWriter) { w.Header().Set("Content-Length", "4"); write(w, "text") }},
		{"length not reached", "GET", func(w http.ResponseWriter) { w.Header().Set("Content-Length", "9"); write(w, "text") }},
		{"length not reached flushed", "GET", func(w http.ResponseWriter) { w.Header().Set("Content-Length", "9"); write(w, "text"); flush(w) }},
		{"length of nothing", "GET", func(w http.ResponseWriter) { w.Header().Set("Content-Length", "9") }},
		{"length exceeded HTTP1", "GET", func(w http.ResponseWriter) { w.Header().Set("Content-Length", "4"); write(w, "text"); write(w, "more") }},
		{"ReadFrom", "GET", func(w http.ResponseWriter) { _, _ = io.Copy(w, strings.NewReader("text")) }},
		{"ReadFrom long", "GET", func(w http.ResponseWriter) {
			_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 300<<10))})
		}},
		{"trailers declared", "GET", func(w http.ResponseWriter) {
			w.Header().Add("Trailer", "X-Sum, X-None")
			w.Header().Add("Trailer", "X-More")
			write(w, "text")
			w.Header().Set("X-Sum", "sum")
			w.Header()["X-More"] = []string{"a", "b"}
		}},
		{"trailers not declared", "GET", func(w http.ResponseWriter) {
			write(w, "text")
			flush(w)
			w.Header().Add(http.TrailerPrefix+"X-Sum", "a")
			w.Header().Add(http.TrailerPrefix+"X-Sum", "b")
		}},
		{"trailers without a body", "GET", func(w http.ResponseWriter) {
			w.Header().Set("Trailer", "X-Sum")
			w.WriteHeader(http.StatusOK)
			w.Header().Set("X-Sum", "sum")
		}},
		{"hints", "GET", func(w http.ResponseWriter) {
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("X-A", "a")
			w.WriteHeader(http.StatusCreated)
			write(w, "text")
		}},
		{"hints and nothing", "GET", func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }},
	}
	eachProtocol(t, func(t *testing.T, p setup) {
		for _, tt := range tests {
			if p.http2 && strings.HasSuffix(tt.name, "HTTP1") {
				continue // there even what was written before is lost
			}
			t.Run(tt.name, func(t *testing.T) {
				s := serve(t, p)
				request := func() *http.Request { return s.request(tt.method, "/", "") }
				plain := startServer(t, p, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { tt.handler(w) }))
				r := request()
				r.URL.Host = plain.Listener.Addr().String()
				want := s.sendBy(plain.Client(), r).answer()
				leader, c := s.lead(request())
				follower := s.send(request())
				s.watched(2)
				c.do(func(w http.ResponseWriter, _ *http.Request) { tt.handler(w) })
				c.end()
				assert.Equal(t, want, leader.answer(), "leader")
				assert.Equal(t, want, follower.answer(), "follower")
				s.watched(0)
				s.works()
			})
		}
	})
}

// 103 is for who was first, and 201 for all.
func TestH32EarlyHints(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		s := serve(t, p)
		hints := make(map[string]*atomic.Int32)
		send := func(name string) *visitor {
			n := new(atomic.Int32)
			hints[name] = n
			r := s.get(name)
			return s.send(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
					assert.Equal(t, http.StatusEarlyHints, code)
					assert.Equal(t, "</style.css>", header.Get("Link"))
					n.Add(1)
					return nil
				},
			})))
		}
		leader := send("leader")
		c := s.next()
		follower := send("follower")
		s.watched(2)
		c.do(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(http.StatusEarlyHints)
		})
		late := send("late")
		s.watched(3)
		c.do(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "made")
		})
		c.end()
		for _, v := range []*visitor{leader, follower, late} {
			assert.Equal(t, http.StatusCreated, v.head().StatusCode)
			assert.Equal(t, "made", v.whole())
		}
		assert.EqualValues(t, 1, hints["leader"].Load())
		assert.Zero(t, hints["follower"].Load()+hints["late"].Load())
	})
}

func TestBinaryToMany(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		p.sharer = append(p.sharer, join.WithKept(8<<20)) // nobody is broken off
		s := serve(t, p)
		data := make([]byte, 5<<20)
		_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
		leader, c := s.lead(s.get("leader"))
		all := append(s.join(19), leader)
		done := c.begin(func(w http.ResponseWriter, _ *http.Request) {
			_, err := io.Copy(w, bytes.NewReader(data))
			assert.NoError(t, err)
		})
		sums := make(chan [32]byte, len(all))
		for _, v := range all {
			go func() {
				text, err := v.rest()
				assert.NoError(t, err)
				sums <- sha256.Sum256([]byte(text))
			}()
		}
		s.await(done, "the handler")
		c.end()
		for range all {
			require.Equal(t, sha256.Sum256(data), <-sums)
		}
	})
}
