package ginlock_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// compressed is a writer as compressing middlewares put in the place of gin's.
type compressed struct {
	gin.ResponseWriter
	zip *gzip.Writer
}

func (w *compressed) Write(p []byte) (int, error) {
	w.Header().Del("Content-Length")
	return w.zip.Write(p)
}

func (w *compressed) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w *compressed) Flush() {
	_ = w.zip.Flush()
	w.ResponseWriter.Flush()
}

// compress swaps the writer, and puts it back if it is told to.
func compress(restore bool) gin.HandlerFunc {
	return func(c *gin.Context) {
		before := c.Writer
		w := &compressed{before, gzip.NewWriter(before)}
		c.Header("Content-Encoding", "gzip")
		c.Header("Vary", "Accept-Encoding")
		c.Writer = w
		c.Next()
		if restore {
			c.Writer = before
		}
		_ = w.zip.Close()
	}
}

// unzip returns the body that a compressing middleware was given.
func unzip(t *testing.T, a answer) string {
	t.Helper()
	require.NoError(t, a.err)
	require.Equal(t, []string{"gzip"}, a.header["Content-Encoding"])
	z, err := gzip.NewReader(strings.NewReader(a.body))
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	return string(text)
}

// gin's writer may be swapped while handlers run: further out, further in, and by the
// handler itself.
func TestH33_WriterIsSwapped(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 8<<10)
	handlers := []struct {
		name string
		h    gin.HandlerFunc
		want string
	}{
		{"JSON", func(c *gin.Context) { c.JSON(http.StatusCreated, gin.H{"a": 1}) }, `{"a":1}`},
		{"String/large", func(c *gin.Context) { c.String(http.StatusCreated, large) }, large},
		{"stream", func(c *gin.Context) {
			c.Status(http.StatusCreated)
			for i := range 5 {
				fmt.Fprint(c.Writer, i)
				c.Writer.Flush()
			}
		}, "01234"},
		{"swapped on the way", func(c *gin.Context) {
			c.String(http.StatusCreated, "a")
			w := c.Writer
			c.Writer = &struct{ gin.ResponseWriter }{w}
			c.String(http.StatusOK, "b")
			c.Writer = w
			c.String(http.StatusOK, "c")
		}, "abc"},
		{"copied context", func(c *gin.Context) {
			copied := c.Copy() // before anything is written
			c.String(http.StatusCreated, copied.GetHeader("X-User-ID"))
		}, "u1"},
	}
	places := []struct {
		name            string
		outside, inside bool
		restore         bool
	}{
		{"outside", true, false, true},
		{"outside, not restored", true, false, false},
		{"inside", false, true, true},
		{"inside, not restored", false, true, false},
	}
	for _, tt := range handlers {
		for _, place := range places {
			for _, p := range protocols {
				t.Run(tt.name+"/"+place.name+"/"+p.name, func(t *testing.T) {
					g := newGate()
					var mu sync.Mutex
					var sizes []int
					router := gin.New()
					router.Use(func(c *gin.Context) {
						w := c.Writer
						c.Next()
						if place.inside || place.restore {
							assert.Same(t, w, c.Writer)
						}
						mu.Lock()
						defer mu.Unlock()
						assert.Equal(t, http.StatusCreated, w.Status())
						assert.True(t, w.Written())
						sizes = append(sizes, w.Size())
					})
					if place.outside {
						router.Use(compress(place.restore))
					}
					router.Use(joining(), g.pass)
					if place.inside {
						router.Use(compress(place.restore))
					}
					router.POST("/", tt.h)
					srv := serve(t, p.http2, router)
					answers := askTogether(t, srv, g, 3, func(int) *http.Request {
						r := request(t, "POST", srv.URL, "")
						r.Header.Set("Accept-Encoding", "gzip")
						return r
					})
					srv.Close()
					requireRoles(t, answers)
					require.EqualValues(t, 1, g.runs.Load())
					lengths := make([]int, len(answers))
					for i, a := range answers {
						require.Equal(t, http.StatusCreated, a.status)
						require.Equal(t, tt.want, unzip(t, a))
						lengths[i] = len(a.body)
					}
					require.ElementsMatch(t, lengths, sizes)
				})
			}
		}
	}
}

// A writer that a handler leaves in the place of gin's when it panics is not there for the
// recovery.
func TestH33_WriterIsSwappedAndTheHandlerPanics(t *testing.T) {
	g := newGate()
	router := gin.New()
	router.POST("/", func(c *gin.Context) {
		w := c.Writer
		defer func() { assert.Same(t, w, c.Writer) }()
		c.Next()
	}, gin.Recovery(), joining(), g.pass, func(c *gin.Context) {
		c.Writer = &struct{ gin.ResponseWriter }{c.Writer}
		panic("swapped")
	})
	srv := serve(t, false, router)
	for _, a := range askTogether(t, srv, g, 3, func(int) *http.Request { return request(t, "POST", srv.URL, "") }) {
		require.NoError(t, a.err)
		require.Equal(t, http.StatusInternalServerError, a.status)
	}
}
