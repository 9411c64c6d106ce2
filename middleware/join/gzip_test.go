package join_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// zip is a compressing middleware.
func zip(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := &zipper{w, gzip.NewWriter(w)}
		next.ServeHTTP(z, r)
		_ = z.to.Close()
	})
}

type zipper struct {
	http.ResponseWriter
	to *gzip.Writer
}

func (z *zipper) Write(p []byte) (int, error) { return z.to.Write(p) }
func (z *zipper) Unwrap() http.ResponseWriter { return z.ResponseWriter }

func (z *zipper) Flush() {
	_ = z.to.Flush()
	_ = http.NewResponseController(z.ResponseWriter).Flush()
}

// Clients that do not take what is compressed are given what is not, live, be the
// compression inside of the guard or outside.
func TestGzip(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		for _, where := range []string{"inside", "outside"} {
			t.Run(where, func(t *testing.T) {
				p := p
				if where == "inside" {
					p.inside = zip
				} else {
					p.outside = zip
				}
				s := serve(t, p)
				request := func(encoding string) *http.Request {
					r := s.get("")
					r.Header.Set("Accept-Encoding", encoding)
					return r
				}
				for _, encoding := range []string{"gzip", "identity"} {
					v, c := s.lead(request(encoding))
					all := []*visitor{v, s.send(request(encoding)), s.send(request(encoding))}
					s.watched(3)
					other := s.send(request("gzip, identity")) // is not among them
					s.watched(4)
					c.write("first,")
					bodies := make([]io.Reader, len(all))
					for i, v := range all {
						bodies[i] = unzip(t, v.head())
						assert.Equal(t, encoding == "gzip", v.head().Header.Get("Content-Encoding") == "gzip")
						assert.Equal(t, []string{"Accept-Encoding"}, v.head().Header["Vary"])
						got := make([]byte, len("first,"))
						_, err := io.ReadFull(bodies[i], got) // before there is more
						require.NoError(t, err)
						assert.Equal(t, "first,", string(got))
					}
					c.write("second")
					c.end()
					for _, body := range bodies {
						got, err := io.ReadAll(body)
						assert.NoError(t, err)
						assert.Equal(t, "second", string(got))
					}
					c = s.next()
					c.write("other")
					c.end()
					got, err := io.ReadAll(unzip(t, other.head()))
					assert.NoError(t, err)
					assert.Equal(t, "other", string(got))
				}
			})
		}
	})
}

func unzip(t *testing.T, resp *http.Response) io.Reader {
	t.Helper()
	if resp.Header.Get("Content-Encoding") != "gzip" {
		return resp.Body
	}
	r, err := gzip.NewReader(resp.Body)
	require.NoError(t, err)
	return r
}

// What is broken off is so for who reads it compressed.
func TestGzipBrokenOff(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		p.outside = zip
		s := serve(t, p)
		request := func() *http.Request {
			r := s.get("")
			r.Header.Set("Accept-Encoding", "gzip")
			return r
		}
		leader, c := s.lead(request())
		follower := s.send(request())
		s.watched(2)
		c.write("half")
		c.begin(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		for _, v := range []*visitor{leader, follower} {
			got, err := io.ReadAll(unzip(t, v.head()))
			assert.Equal(t, "half", string(got))
			assert.Error(t, err)
		}
	})
}
