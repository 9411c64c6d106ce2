package ginlock_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/ginlock"
	"github.com/reqlock/reqlock/middleware"
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
