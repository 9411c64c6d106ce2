package ginlock_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/ginlock"
	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
	"github.com/reqlock/reqlock/middleware/lock"
)

// What a handler panics with goes to the recovery further out. Others get 500, or what
// they have is broken off.
func TestJoinedPanic(t *testing.T) {
	before := func(*gin.Context) { panic("before") }
	noted := func(c *gin.Context) { c.Status(202); panic("noted") }
	held := func(c *gin.Context) { c.AbortWithStatus(202); panic("header") }
	after := func(c *gin.Context) { c.SSEvent("", "half"); c.Writer.Flush(); panic("after") }
	const whole = "data:half\n\n"
	tests := []struct {
		name   string
		inside bool // where gin.Recovery is
		h      gin.HandlerFunc
		status int // 0: broken off
		body   string
	}{
		{"outside/before", false, before, 500, ""},
		{"outside/status noted", false, noted, 500, ""},
		{"outside/header", false, held, 500, ""},
		{"outside/after", false, after, 0, ""},
		{"inside/before", true, before, 500, ""},
		{"inside/status noted", true, noted, 500, ""},
		{"inside/after", true, after, 200, whole}, // what gin makes of it
	}
	for _, tt := range tests {
		for _, p := range protocols {
			t.Run(tt.name+"/"+p.name, func(t *testing.T) {
				g := newGate()
				router := gin.New()
				handlers := []gin.HandlerFunc{gin.Recovery(), joining()}
				if tt.inside {
					handlers = []gin.HandlerFunc{joining(), gin.Recovery()}
				}
				router.Use(handlers...)
				router.POST("/", g.pass, tt.h)
				srv := serve(t, p.http2, router)
				build := func(int) *http.Request { return request(t, "POST", srv.URL, "") }
				for i, a := range askTogether(t, srv, g, 3, build) {
					if tt.status == 0 {
						require.Error(t, a.err, i)
						continue
					}
					require.NoError(t, a.err, i)
					require.Equal(t, tt.status, a.status, i)
					if i == 0 || tt.inside {
						require.Contains(t, a.body, tt.body)
					}
				}
				_ = ask(t, srv, build(0)) // nothing is left behind
				require.EqualValues(t, 2, g.runs.Load())
			})
		}
	}
}

// A lease that is lost before anything was written is answered for, to all: a status that
// was only noted is nothing.
func TestJoinedCutOff(t *testing.T) {
	tests := []struct {
		name string
		h    gin.HandlerFunc
		half bool
	}{
		{"nothing", func(*gin.Context) {}, false},
		{"status noted", func(c *gin.Context) { c.Status(204) }, false},
		{"error", func(c *gin.Context) { _ = c.Error(io.EOF) }, false},
		{"body", func(c *gin.Context) { c.String(200, "half") }, true},
		{"header", func(c *gin.Context) { c.Writer.WriteHeaderNow() }, true},
	}
	for _, tt := range tests {
		for _, p := range protocols {
			t.Run(tt.name+"/"+p.name, func(t *testing.T) {
				g := newGate()
				router := gin.New()
				router.Use(gin.Recovery(), ginlock.New(guardtest.NewLosable(), user, middleware.WithJoin(join.New(nil))), g.pass)
				router.POST("/", func(c *gin.Context) {
					tt.h(c)
					guardtest.Lose(c.Request.Context(), lock.ErrInterrupted)
				})
				srv := serve(t, p.http2, router)
				for i, a := range askTogether(t, srv, g, 3, func(int) *http.Request { return request(t, "POST", srv.URL, "") }) {
					if tt.half {
						require.Error(t, a.err, i)
						continue
					}
					require.NoError(t, a.err, i)
					require.Equal(t, http.StatusConflict, a.status, i)
					require.Contains(t, a.body, `"reason":"interrupted"`)
				}
			})
		}
	}
}

// A connection that is taken over is its request's own; those that wait run for
// themselves.
func TestJoinedHijack(t *testing.T) {
	tests := []struct {
		name string
		h    func(c *gin.Context)
		want string
	}{
		{"at once", func(*gin.Context) {}, ""},
		{"after the header", func(c *gin.Context) { c.Status(101); c.Writer.WriteHeaderNow() }, "HTTP/1.1 101 Switching Protocols\r\n"},
	}
	for _, upgrade := range []bool{false, true} {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s/upgrade=%t", tt.name, upgrade), func(t *testing.T) {
				g := newGate()
				router := gin.New()
				router.GET("/", joining(), g.pass, func(c *gin.Context) {
					if upgrade {
						c.Header("Upgrade", "test")
						c.Header("Connection", "Upgrade")
					}
					tt.h(c)
					conn, rw, err := c.Writer.Hijack()
					if !assert.NoError(t, err) {
						return
					}
					defer conn.Close()
					assert.True(t, c.Writer.Written())
					line, err := rw.ReadString('\n')
					assert.NoError(t, err)
					fmt.Fprint(rw, "echo "+line)
					assert.NoError(t, rw.Flush())
				})
				srv := serve(t, false, router)
				dial := func() net.Conn {
					conn, err := net.Dial("tcp", srv.Listener.Addr().String())
					require.NoError(t, err)
					t.Cleanup(func() { conn.Close() })
					text := "GET / HTTP/1.1\r\nHost: x\r\nX-User-ID: u1\r\n"
					if upgrade {
						text += "Upgrade: test\r\nConnection: Upgrade\r\n"
					}
					fmt.Fprint(conn, text+"\r\n")
					return conn
				}
				first := dial()
				<-g.inside
				second := dial()
				if !upgrade {
					awaitFollowers(t, 1)
				}
				close(g.open)
				for i, conn := range []net.Conn{first, second} {
					fmt.Fprintf(conn, "hello %d\n", i)
					all, err := io.ReadAll(conn)
					require.NoError(t, err)
					require.True(t, strings.HasPrefix(string(all), tt.want), string(all))
					require.True(t, strings.HasSuffix(string(all), fmt.Sprintf("echo hello %d\n", i)), string(all))
				}
			})
		}
	}
}

func TestJoinedHijackAfterABody(t *testing.T) {
	router := gin.New()
	router.GET("/", joining(), func(c *gin.Context) {
		c.String(http.StatusOK, "body")
		_, _, err := c.Writer.Hijack()
		assert.Error(t, err)
	})
	srv := serve(t, false, router)
	require.Equal(t, "body", ask(t, srv, request(t, "GET", srv.URL, "")).body)
}
