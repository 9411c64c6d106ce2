package join_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
)

// alone sends two requests that are equal, and requires that each has its own handler,
// which finds the body as it was sent.
func (s *site) alone(request func() *http.Request, body string) {
	s.t.Helper()
	first, c := s.lead(request())
	second := s.send(request())
	s.queued(1)
	s.watched(0)
	for i, v := range []*visitor{first, second} {
		if i > 0 {
			c = s.next()
		}
		run := fmt.Sprintf("run %d", i)
		c.do(func(w http.ResponseWriter, r *http.Request) {
			got, err := io.ReadAll(r.Body)
			assert.NoError(s.t, err)
			assert.Equal(s.t, body, string(got))
			_, _ = io.WriteString(w, run)
		})
		c.end()
		assert.Equal(s.t, run, v.whole())
		assert.Equal(s.t, []string{"leader", "queued"}[i], v.role())
	}
}

func TestRequestsForOneselfOnly(t *testing.T) {
	tests := []struct{ header, value string }{
		{"Range", "bytes=0-9"},
		{"If-Range", `"a"`},
		{"If-Match", `"a"`},
		{"If-None-Match", `"a"`},
		{"If-Modified-Since", "Mon, 02 Jan 2006 15:04:05 GMT"},
		{"If-Unmodified-Since", "Mon, 02 Jan 2006 15:04:05 GMT"},
		{"Upgrade", "echo"},
	}
	eachProtocol(t, func(t *testing.T, p setup) {
		for _, tt := range tests {
			if p.http2 && tt.header == "Upgrade" {
				continue // there is none
			}
			t.Run(tt.header, func(t *testing.T) {
				s := serve(t, p)
				s.alone(func() *http.Request {
					r := s.get("")
					r.Header.Set(tt.header, tt.value)
					return r
				}, "")
			})
		}
	})
}

func TestBodiesThatAreNotReadAhead(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		p.guard = append(p.guard, middleware.WithMaxBody(100))
		t.Run("unknown length", func(t *testing.T) {
			s := serve(t, p)
			s.alone(func() *http.Request {
				r := s.request(http.MethodPost, "/", "")
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), -1
				return r
			}, "body")
		})
		t.Run("too long", func(t *testing.T) {
			s, body := serve(t, p), strings.Repeat("x", 101)
			s.alone(func() *http.Request { return s.request(http.MethodPost, "/", body) }, body)
		})
		t.Run("as long as may be", func(t *testing.T) {
			s, body := serve(t, p), strings.Repeat("x", 100)
			first, c := s.lead(s.request(http.MethodPost, "/", body))
			s.together(first, c, s.send(s.request(http.MethodPost, "/", body)))
		})
		t.Run("none but short ones", func(t *testing.T) {
			p := p
			p.guard = []middleware.Option{middleware.WithMaxBody(0)}
			s := serve(t, p)
			s.alone(func() *http.Request { return s.request(http.MethodPost, "/", "b") }, "b")
			first, c := s.lead(s.get(""))
			s.together(first, c, s.send(s.get("")))
		})
		t.Run("read for the key", func(t *testing.T) {
			p := p
			p.key = keyfuncs.JSON("user")
			s := serve(t, p)
			request := func() *http.Request {
				r := s.request(http.MethodPost, "/", "")
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(`{"user":"u"}`)), -1
				return r
			}
			first, c := s.lead(request())
			second := s.send(request())
			s.together(first, c, second)
		})
	})
}

// The handler, whoever's it is in the end, has all of the body.
func TestTheBodyIsHandedOnWhole(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		for name, key := range map[string]keyfuncs.Func{"not read": nil, "read for the key": keyfuncs.JSON("user")} {
			t.Run(name, func(t *testing.T) {
				p := p
				p.key = key
				s := serve(t, p)
				body := `{"user":"u","prompt":"` + strings.Repeat("long ", 50_000) + `"}`
				leader, c := s.lead(s.request(http.MethodPost, "/", body))
				follower := s.send(s.request(http.MethodPost, "/", body))
				s.watched(2)
				for i, v := range []*visitor{leader, follower} {
					if i > 0 {
						c = s.next()
					}
					c.do(func(w http.ResponseWriter, r *http.Request) {
						got, err := io.ReadAll(r.Body)
						assert.NoError(t, err)
						assert.True(t, body == string(got), "%d bytes of %d", len(got), len(body))
						assert.EqualValues(t, len(body), r.ContentLength)
						w.Header().Set("Set-Cookie", "a=b") // so that the follower runs, too
					})
					c.end()
					assert.Empty(t, v.whole())
				}
			})
		}
	})
}

// A client whose body ends too early has left, to net/http: nobody would read an answer.
func TestABodyThatBreaksOff(t *testing.T) {
	s := serve(t, setup{})
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nX-User: u\r\nContent-Length: 10\r\n\r\nhalf")
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	assert.Equal(t, 499, resp.StatusCode)
	s.works()
}

// An error of the body itself is the handler's, as without the guard.
func TestABodyThatFails(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		p.outside = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Body = http.MaxBytesReader(w, r.Body, 4)
				next.ServeHTTP(w, r)
			})
		}
		s := serve(t, p)
		v, c := s.lead(s.request(http.MethodPost, "/", "too long"))
		c.do(func(w http.ResponseWriter, r *http.Request) {
			got, err := io.ReadAll(r.Body)
			assert.Equal(t, "too ", string(got))
			_, ok := errors.AsType[*http.MaxBytesError](err)
			assert.True(t, ok, "%v", err)
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		})
		c.end()
		assert.Equal(t, http.StatusRequestEntityTooLarge, v.head().StatusCode)
	})
}

func TestFullDuplex(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		s := serve(t, p)
		in, out := io.Pipe()
		defer func() { _ = out.Close() }()
		r := s.request(http.MethodPost, "/", "")
		r.Body, r.ContentLength = in, -1
		v, c := s.lead(r)
		c.do(func(w http.ResponseWriter, _ *http.Request) {
			assert.NoError(t, http.NewResponseController(w).EnableFullDuplex())
		})
		for i := range 5 {
			line := fmt.Sprintf("line %d\n", i)
			done := c.begin(func(w http.ResponseWriter, r *http.Request) {
				p := make([]byte, len(line))
				_, err := io.ReadFull(r.Body, p)
				assert.NoError(t, err)
				_, _ = w.Write(p)
				assert.NoError(t, http.NewResponseController(w).Flush())
			})
			_, err := io.WriteString(out, line)
			require.NoError(t, err)
			s.await(done, "the echo")
			v.reads(line)
		}
		require.NoError(t, out.Close())
		c.end()
		assert.Empty(t, v.whole())
	})
}

// A client that waits to be asked for its body is asked.
func TestExpect(t *testing.T) {
	s := serve(t, setup{})
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nX-User: u\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusContinue, resp.StatusCode)
	_, err = io.WriteString(conn, "body")
	require.NoError(t, err)
	c := s.next()
	c.do(func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		_, _ = w.Write(got)
	})
	c.end()
	resp, err = http.ReadResponse(in, nil)
	require.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "body", string(got))
}
