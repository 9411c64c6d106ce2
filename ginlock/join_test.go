package ginlock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/ginlock"
	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// Of equal requests one runs the handlers. No other handler runs for those that join,
// but for what there is further out.
func TestJoinedRunsNoHandler(t *testing.T) {
	g := newGate()
	var outer, later atomic.Int32
	router := gin.New()
	router.POST("/", func(c *gin.Context) {
		c.Next()
		outer.Add(1)
		assert.Equal(t, c.Writer.Header().Get("X-Reqlock") == "joined", c.IsAborted())
	}, joining(), g.pass, func(c *gin.Context) {
		c.JSON(http.StatusOK, gin.H{"run": g.runs.Load()})
	}, func(*gin.Context) { later.Add(1) })
	srv := serve(t, false, router)
	answers := askTogether(t, srv, g, 50, func(int) *http.Request { return request(t, "POST", srv.URL, `{"prompt":"hello"}`) })
	srv.Close()
	requireRoles(t, answers)
	for _, a := range answers {
		require.Equal(t, `{"run":1}`, a.body)
	}
	require.EqualValues(t, 1, later.Load())
	require.EqualValues(t, 50, outer.Load())
}

// A stream reaches all clients event by event.
func TestJoinedStream(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			g := newGate()
			next := make(chan int)
			router := gin.New()
			router.POST("/", joining(), g.pass, func(c *gin.Context) {
				c.Stream(func(io.Writer) bool {
					i, ok := <-next
					if ok {
						c.SSEvent("token", i)
					}
					return ok
				})
			})
			srv := serve(t, p.http2, router)
			clients := make(chan *bufio.Scanner, 3)
			for range cap(clients) {
				go func() {
					resp, err := srv.Client().Do(request(t, "POST", srv.URL, ""))
					if !assert.NoError(t, err) {
						clients <- bufio.NewScanner(strings.NewReader(""))
						return
					}
					t.Cleanup(func() { resp.Body.Close() })
					clients <- bufio.NewScanner(resp.Body)
				}()
			}
			awaitFollowers(t, cap(clients)-1)
			close(g.open)
			next <- 0
			var all []*bufio.Scanner
			for range cap(clients) {
				all = append(all, <-clients)
			}
			for i := range 5 {
				if i > 0 {
					next <- i
				}
				for _, client := range all { // before the handler goes on
					for _, want := range []string{"event:token", fmt.Sprint("data:", i), ""} {
						require.True(t, client.Scan())
						require.Equal(t, want, client.Text())
					}
				}
			}
			close(next)
			for _, client := range all {
				require.False(t, client.Scan())
				require.NoError(t, client.Err())
			}
		})
	}
}

// renderer answers for the errors of handlers further in, as gin.ErrorLogger does.
func renderer(c *gin.Context) {
	c.Next()
	if len(c.Errors) > 0 && c.Writer.Size() <= 0 {
		c.JSON(-1, gin.H{"error": c.Errors.Last().Error(), "id": c.GetHeader("X-Request-Id")})
	}
}

// What is for a handler further out to answer is not shared: each request gets its own
// answer, one at a time.
func TestAnsweredFurtherOutIsNotShared(t *testing.T) {
	tests := []struct {
		name   string
		h      gin.HandlerFunc
		status int
		body   string // with the request's id
	}{
		{"error", func(c *gin.Context) { _ = c.Error(io.EOF) }, 200, `{"error":"EOF","id":"%d"}`},
		{"error, status noted", func(c *gin.Context) { _ = c.Error(io.EOF); c.Status(502) }, 502, `{"error":"EOF","id":"%d"}`},
		{"AbortWithError", func(c *gin.Context) { c.Header("X-Inner", "1"); _ = c.AbortWithError(502, io.EOF) }, 502, `{"error":"EOF","id":"%d"}`},
		{"Bind", func(c *gin.Context) { _ = c.BindJSON(&struct{}{}) }, 400, `{"error":"EOF","id":"%d"}`},
		{"value", func(c *gin.Context) { c.Set("result", c.GetHeader("X-Request-Id")) }, 200, `{"result":"%d"}`},
	}
	for _, tt := range tests {
		for _, p := range protocols {
			t.Run(tt.name+"/"+p.name, func(t *testing.T) {
				g := newGate()
				var running atomic.Int32
				router := gin.New()
				router.POST("/", func(c *gin.Context) {
					c.Next()
					if result, ok := c.Get("result"); ok {
						c.JSON(http.StatusOK, gin.H{"result": result})
					}
				}, renderer, joining(), g.pass, func(c *gin.Context) {
					assert.EqualValues(t, 1, running.Add(1))
					tt.h(c)
					running.Add(-1)
				})
				srv := serve(t, p.http2, router)
				answers := askTogether(t, srv, g, 4, func(i int) *http.Request {
					r := request(t, "POST", srv.URL, "")
					r.Header.Set("X-Request-Id", fmt.Sprint(i))
					return r
				})
				for i, a := range answers {
					require.NoError(t, a.err)
					require.NotEqual(t, "joined", a.role)
					require.Equal(t, tt.status, a.status)
					require.Equal(t, fmt.Sprintf(tt.body, i), a.body)
				}
				require.EqualValues(t, 4, g.runs.Load())
			})
		}
	}
}

// Two users of one key that only an earlier handler tells apart: without a fingerprint of
// one's own the second gets the first one's response.
func TestUsersToldApartByAValue(t *testing.T) {
	byUser := middleware.WithFingerprint(func(r *http.Request, body []byte) (string, error) {
		name, err := ginlock.Value("user")(r)
		if err != nil {
			return "", err
		}
		rest, err := middleware.Fingerprint(r, body)
		return name + " " + rest, err
	})
	for _, apart := range []bool{true, false} {
		t.Run(fmt.Sprint("apart=", apart), func(t *testing.T) {
			var opts []middleware.Option
			if apart {
				opts = append(opts, byUser)
			}
			sessions := map[string]string{"a": "alice", "b": "bob"}
			inside := make(chan struct{}, 2)
			open := make(chan struct{})
			release := sync.OnceFunc(func() { close(open) })
			defer release()
			router := gin.New()
			router.POST("/", func(c *gin.Context) { c.Set("user", sessions[c.GetHeader("X-Request-Id")]) },
				joining(opts...), func(c *gin.Context) {
					inside <- struct{}{}
					<-open
					c.String(http.StatusOK, c.GetString("user"))
				})
			srv := serve(t, false, router)
			answers := make(chan answer, 2)
			send := func(id string) {
				r := request(t, "POST", srv.URL, "hello")
				r.Header.Set("X-Request-Id", id)
				answers <- ask(t, srv, r)
			}
			go send("a")
			<-inside
			go send("b")
			if apart {
				awaitFrames(t, "join.(*viewer).lead(", 2)
			} else {
				awaitFollowers(t, 1)
			}
			release()
			bodies := []string{(<-answers).body, (<-answers).body}
			want := []string{"alice", "bob"}
			if !apart {
				want = []string{"alice", "alice"}
			}
			require.ElementsMatch(t, want, bodies)
		})
	}
}

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

// The leader's client hangs up. The handlers go on for those that are left, with a context
// that gin does not use again meanwhile.
func TestLeadersClientHangsUp(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		for _, p := range protocols {
			t.Run(fmt.Sprintf("ContextWithFallback=%t/%s", fallback, p.name), func(t *testing.T) {
				g := newGate()
				gone := make(chan struct{})
				var leader atomic.Pointer[gin.Context]
				router := gin.New()
				router.ContextWithFallback = fallback
				router.Use(func(c *gin.Context) {
					if c.GetHeader("X-Request-Id") == "0" {
						client := c.Request.Context()
						context.AfterFunc(client, func() { close(gone) })
					}
					c.Set("user", c.GetHeader("X-Request-Id"))
				})
				router.POST("/other", func(c *gin.Context) { assert.NotSame(t, leader.Load(), c) })
				router.POST("/", joining(), func(c *gin.Context) { leader.Store(c) }, g.pass, func(c *gin.Context) {
					c.SSEvent("", "first")
					assert.NoError(t, c.Request.Context().Err())
					assert.NoError(t, c.Err())
					lease, ok := lock.From(c)
					assert.Equal(t, fallback, ok)
					if ok {
						assert.Equal(t, "u1", lease.Key())
					}
					select {
					case <-c.Writer.CloseNotify():
						assert.Fail(t, "somebody is left")
					default:
					}
					assert.Same(t, leader.Load(), c)
					c.String(http.StatusOK, c.GetString("user"))
				})
				srv := serve(t, p.http2, router)
				ctx, hangUp := context.WithCancel(t.Context())
				first := make(chan error, 1)
				go func() {
					r := request(t, "POST", srv.URL, "")
					r.Header.Set("X-Request-Id", "0")
					resp, err := srv.Client().Do(r.WithContext(ctx))
					if err == nil {
						resp.Body.Close()
					}
					first <- err
				}()
				<-g.inside
				second := make(chan answer, 1)
				go func() { second <- ask(t, srv, request(t, "POST", srv.URL, "")) }()
				awaitFollowers(t, 1)
				hangUp()
				require.ErrorIs(t, <-first, context.Canceled)
				<-gone
				for range 20 {
					require.Equal(t, http.StatusOK, ask(t, srv, request(t, "POST", srv.URL+"/other", "")).status)
				}
				close(g.open)
				a := <-second
				require.NoError(t, a.err)
				require.Equal(t, "joined", a.role)
				require.Equal(t, "data:first\n\n0", a.body)
				require.EqualValues(t, 1, g.runs.Load())
			})
		}
	}
}

// Once all clients have hung up, the handlers are told.
func TestAllClientsHangUp(t *testing.T) {
	g := newGate()
	ended := make(chan error, 1)
	router := gin.New()
	router.POST("/", joining(), g.pass, func(c *gin.Context) {
		<-c.Writer.CloseNotify()
		ended <- c.Request.Context().Err()
	})
	srv := serve(t, false, router)
	ctx, hangUp := context.WithCancel(t.Context())
	for range 3 {
		r := request(t, "POST", srv.URL, "").WithContext(ctx)
		go func() {
			_, err := srv.Client().Do(r) //nolint:bodyclose // there is none
			assert.True(t, errors.Is(err, context.Canceled))
		}()
	}
	awaitFollowers(t, 2)
	close(g.open)
	hangUp()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(5 * time.Second):
		require.Fail(t, "the handler was not told")
	}
}

// Of two guards, the outer one shares, and says what a request was.
func TestNestedGuardsJoin(t *testing.T) {
	for _, tt := range []struct {
		name  string
		inner lock.Locker // nil: the outer one's
	}{{"same Locker", nil}, {"another Locker", memlock.New()}} {
		for _, private := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/private=%t", tt.name, private), func(t *testing.T) {
				g := newGate()
				sharer := middleware.WithJoin(join.New(nil))
				locks := lock.Locker(memlock.New())
				inner := tt.inner
				if inner == nil {
					inner = locks
				}
				router := gin.New()
				outside := router.Group("/", ginlock.New(locks, user, sharer, middleware.WithWait(30*time.Second)))
				outside.Group("/", ginlock.New(inner, user, sharer, middleware.WithWait(30*time.Second))).
					POST("/", g.pass, func(c *gin.Context) {
						if private {
							c.SetCookie("a", "b", 1, "/", "", false, false)
						}
						c.String(http.StatusOK, "run")
					})
				srv := serve(t, false, router)
				start := time.Now()
				answers := askTogether(t, srv, g, 4, func(int) *http.Request { return request(t, "POST", srv.URL, "") })
				require.Less(t, time.Since(start), 10*time.Second)
				if private {
					require.EqualValues(t, 4, g.runs.Load())
					require.Equal(t, "leader", answers[0].role)
				} else {
					requireRoles(t, answers)
				}
				for _, a := range answers {
					require.Equal(t, "run", a.body)
				}
			})
		}
	}
}

// A request that runs for itself in the outer guard does not follow, in the inner one, a
// request that waits for the outer one's key.
func TestNestedGuardsDoNotWaitForEachOther(t *testing.T) {
	g := newGate()
	sharer, wait := middleware.WithJoin(join.New(nil)), middleware.WithWait(20*time.Second)
	between, goOn := make(chan struct{}, 9), make(chan struct{})
	router := gin.New()
	router.POST("/", ginlock.New(memlock.New(), user, sharer, wait), g.pass, func(c *gin.Context) {
		if g.runs.Load() > 1 {
			between <- struct{}{}
			<-goOn
		}
	}, ginlock.New(memlock.New(), user, sharer, wait), func(c *gin.Context) {
		c.SetCookie("for", "one", 1, "/", "", false, false)
		c.String(http.StatusOK, "run")
	})
	srv := serve(t, false, router)
	done := make(chan answer, 3)
	send := func() { done <- ask(t, srv, request(t, "POST", srv.URL, "")) }
	go send()
	<-g.inside
	go send()
	awaitFollowers(t, 1)
	close(g.open)
	<-between // the second one runs for itself
	go send()
	awaitFrames(t, "join.(*viewer).lead(", 1) // the third one waits for it
	close(goOn)
	for range 3 {
		select {
		case a := <-done:
			require.Equal(t, "run", a.body)
			require.Contains(t, []string{"leader", "queued"}, a.role)
		case <-time.After(10 * time.Second):
			require.Fail(t, "they wait for each other")
		}
	}
}
