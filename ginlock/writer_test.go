package ginlock_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/ginlock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// A handler tells with note what gin's writer says of itself.
type noting func(c *gin.Context, note func())

// What handlers do with gin's writer has the same result with and without sharing: for
// them, for who is further out, and for each of the clients.
func TestSharedWriterIsLikeGins(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file.txt")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("0123456789", 1000)), 0o600))
	modified := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	large := strings.Repeat("0123456789abcdef", 8<<10)
	tests := []struct {
		name   string
		method string
		h      noting
	}{
		{"JSON", "POST", func(c *gin.Context, note func()) { c.JSON(201, gin.H{"a": 1}) }},
		{"JSON/HEAD", "HEAD", func(c *gin.Context, note func()) { c.JSON(201, gin.H{"a": 1}) }},
		{"String", "POST", func(c *gin.Context, note func()) { c.String(418, "short %s", "and stout") }},
		{"String/empty", "POST", func(c *gin.Context, note func()) { c.String(200, "") }},
		{"String/204", "POST", func(c *gin.Context, note func()) { c.String(204, "no body") }},
		{"Data", "POST", func(c *gin.Context, note func()) { c.Data(200, "application/x-test", []byte{0, 1, 2}) }},
		{"Data/large", "POST", func(c *gin.Context, note func()) { c.Data(200, "text/plain", []byte(large)) }},
		{"DataFromReader", "GET", func(c *gin.Context, note func()) {
			c.DataFromReader(200, 5, "text/plain", strings.NewReader("12345"), map[string]string{"X-Extra": "1"})
		}},
		{"SSEvent", "POST", func(c *gin.Context, note func()) {
			for i := range 3 {
				c.SSEvent("token", i)
				note()
				c.Writer.Flush()
			}
		}},
		{"Stream", "POST", func(c *gin.Context, note func()) {
			i := 0
			c.Stream(func(w io.Writer) bool {
				fmt.Fprintf(w, "%d\n", i)
				note()
				i++
				return i < 5
			})
		}},
		{"Status", "POST", func(c *gin.Context, note func()) { c.Status(202) }},
		{"Status/204", "POST", func(c *gin.Context, note func()) { c.Status(204) }},
		{"Status/body", "POST", func(c *gin.Context, note func()) { c.Status(202); note(); fmt.Fprint(c.Writer, "x") }},
		{"Status/-1", "POST", func(c *gin.Context, note func()) { c.Status(202); c.JSON(-1, 1) }},
		{"AbortWithStatus", "POST", func(c *gin.Context, note func()) { c.AbortWithStatus(403); note() }},
		{"AbortWithStatusJSON", "POST", func(c *gin.Context, note func()) { c.AbortWithStatusJSON(422, gin.H{"bad": true}) }},
		{"File", "GET", func(c *gin.Context, note func()) { c.File(file) }},
		{"File/HEAD", "HEAD", func(c *gin.Context, note func()) { c.File(file) }},
		{"File/none", "GET", func(c *gin.Context, note func()) { c.File(file + ".not") }},
		{"FileAttachment", "GET", func(c *gin.Context, note func()) { c.FileAttachment(file, "a b.txt") }},
		{"ServeContent", "GET", func(c *gin.Context, note func()) {
			http.ServeContent(c.Writer, c.Request, "x.txt", modified, strings.NewReader(large))
		}},
		{"Redirect/GET", "GET", func(c *gin.Context, note func()) { c.Redirect(302, "/elsewhere") }},
		{"Redirect/POST", "POST", func(c *gin.Context, note func()) { c.Redirect(303, "/elsewhere") }},
		{"header only", "POST", func(c *gin.Context, note func()) { c.Header("X-Only", "1"); c.Status(200) }},
		{"header twice", "POST", func(c *gin.Context, note func()) {
			c.Writer.Header().Add("X-Twice", "1")
			c.Writer.Header().Add("X-Twice", "2")
			c.Status(200)
		}},
		{"header of who is further out", "POST", func(c *gin.Context, note func()) {
			c.Header("X-Outer", "") // gin deletes it
			c.Writer.Header().Add("X-Added", "inner")
			c.String(200, "x")
		}},
		{"WriteHeaderNow", "POST", func(c *gin.Context, note func()) { c.Status(202); c.Writer.WriteHeaderNow(); note() }},
		{"WriteHeaderNow/204", "POST", func(c *gin.Context, note func()) { c.Status(204); c.Writer.WriteHeaderNow() }},
		{"WriteHeaderNow/header too late", "POST", func(c *gin.Context, note func()) {
			c.Header("X-First", "1")
			c.Writer.WriteHeaderNow()
			c.Header("X-Late", "1")
			c.Header("X-First", "2")
			c.String(500, "too late")
		}},
		{"WriteHeaderNow/header too late, no body", "POST", func(c *gin.Context, note func()) {
			c.AbortWithStatus(401)
			c.Header("X-Late", "1")
		}},
		{"WriteHeader/after a body", "POST", func(c *gin.Context, note func()) {
			c.String(200, "first")
			c.Writer.WriteHeader(500)
			note()
			c.String(404, "second")
		}},
		{"WriteHeader/0 and less", "POST", func(c *gin.Context, note func()) {
			c.Writer.WriteHeader(0)
			c.Writer.WriteHeader(-1)
			note()
			c.Writer.WriteString("x")
		}},
		{"Write/nothing", "POST", func(c *gin.Context, note func()) {
			n, err := c.Writer.Write(nil)
			assert.Zero(t, n)
			assert.NoError(t, err)
		}},
		{"Write/204", "POST", func(c *gin.Context, note func()) {
			c.Status(204)
			n, err := c.Writer.Write([]byte("x"))
			assert.Zero(t, n)
			assert.ErrorIs(t, err, http.ErrBodyNotAllowed)
		}},
		{"WriteString", "POST", func(c *gin.Context, note func()) { c.Writer.WriteString("x"); note(); c.Writer.WriteString("yz") }},
		{"Flush", "POST", func(c *gin.Context, note func()) { c.Writer.Flush(); note() }},
		{"Flush/status", "POST", func(c *gin.Context, note func()) { c.Status(202); c.Writer.Flush(); note(); c.String(404, "x") }},
		{"Flush/controller", "POST", func(c *gin.Context, note func()) {
			assert.NoError(t, http.NewResponseController(c.Writer).Flush())
			note()
		}},
		{"deadlines", "POST", func(c *gin.Context, note func()) {
			assert.NoError(t, http.NewResponseController(c.Writer).SetWriteDeadline(time.Now().Add(time.Minute)))
			assert.NoError(t, http.NewResponseController(c.Writer).SetReadDeadline(time.Time{}))
			c.String(200, "x")
		}},
		{"trailer", "POST", func(c *gin.Context, note func()) {
			c.Header("Trailer", "X-After")
			c.String(200, "x")
			c.Writer.Flush()
			c.Header("X-After", "1")
		}},
		{"103 noted", "POST", func(c *gin.Context, note func()) { c.Status(103); note(); c.String(201, "x") }},
		{"103 only", "POST", func(c *gin.Context, note func()) { c.Status(103); note() }},
		{"103 written", "POST", func(c *gin.Context, note func()) {
			c.Header("Link", "</a>")
			c.Status(103)
			c.Writer.WriteHeaderNow()
			note()
			c.String(201, "x")
		}},
		{"103 written only", "POST", func(c *gin.Context, note func()) { c.Status(103); c.Writer.WriteHeaderNow() }},
		{"error after a body", "POST", func(c *gin.Context, note func()) { c.String(400, "bad"); _ = c.Error(io.EOF) }},
		{"CloseNotify", "POST", func(c *gin.Context, note func()) {
			select {
			case <-c.Writer.CloseNotify():
				c.String(500, "gone")
			default:
				c.String(200, "there")
			}
		}},
		{"Pusher", "GET", func(c *gin.Context, note func()) { c.String(200, "%t", c.Writer.Pusher() != nil) }},
	}
	for _, tt := range tests {
		for _, p := range protocols {
			t.Run(tt.name+"/"+p.name, func(t *testing.T) {
				alone, inner, outer := serveNoting(t, p.http2, 1, tt.method, ginlock.New(memlock.New(), user), tt.h)
				want := alone[0]
				require.NoError(t, want.err)

				const n = 3
				answers, sharedInner, sharedOuter := serveNoting(t, p.http2, n, tt.method, joining(), tt.h)
				requireRoles(t, answers)
				for i, got := range answers {
					want.role = got.role
					require.Equal(t, want, got, i)
					if i == 0 {
						require.Equal(t, outer["0"], sharedOuter["0"])
						continue
					}
					f := sharedOuter[fmt.Sprint(i)] // where nothing but a status is only noted
					require.Equal(t, got.status, f.status)
					require.Equal(t, max(outer["0"].size, 0), max(f.size, 0))
				}
				require.Equal(t, inner, sharedInner)
			})
		}
	}
}

// state is what a gin.ResponseWriter says of itself.
type state struct {
	status, size int
	written      bool
}

func stateOf(w gin.ResponseWriter) state { return state{w.Status(), w.Size(), w.Written()} }

// serveNoting has n equal requests at once. inner is what the handler has noted, before,
// in and after it; outer what there was to see after all of it, by request.
func serveNoting(t *testing.T, http2 bool, n int, method string, guard gin.HandlerFunc, h noting) (answers []answer, inner []state, outer map[string]state) {
	t.Helper()
	g := newGate()
	var mu sync.Mutex
	outer = make(map[string]state)
	router := gin.New()
	router.Use(func(c *gin.Context) {
		id := c.GetHeader("X-Request-Id")
		c.Header("X-Own", id)
		c.Header("X-Outer", "1")
		c.Header("X-Added", "outer")
		w := c.Writer
		c.Next()
		assert.Same(t, w, c.Writer)
		mu.Lock()
		defer mu.Unlock()
		outer[id] = stateOf(c.Writer)
	}, guard, g.pass)
	router.Handle(method, "/", func(c *gin.Context) {
		note := func() { inner = append(inner, stateOf(c.Writer)) }
		note()
		h(c, note)
		note()
	})
	srv := serve(t, http2, router)
	answers = askTogether(t, srv, g, n, func(i int) *http.Request {
		r := request(t, method, srv.URL, "")
		r.Header.Set("X-Request-Id", fmt.Sprint(i))
		return r
	})
	srv.Close() // what is further out has ended
	require.EqualValues(t, 1, g.runs.Load())
	return answers, inner, outer
}
