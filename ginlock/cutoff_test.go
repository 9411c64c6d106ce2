package ginlock_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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
	"github.com/reqlock/reqlock/middleware/memlock"
)

// A handler that is cut off before it wrote anything is answered for. A status
// that gin has only noted is nothing written.
func TestCutOffBeforeAnythingWasWritten(t *testing.T) {
	tests := []struct {
		name string
		h    gin.HandlerFunc
	}{
		{"nothing", func(*gin.Context) {}},
		{"200 noted", func(c *gin.Context) { c.Status(http.StatusOK) }},
		{"204 noted", func(c *gin.Context) { c.Status(http.StatusNoContent) }},
		{"aborted with a status noted", func(c *gin.Context) { c.Status(http.StatusTeapot); c.Abort() }},
	}
	for _, tt := range tests {
		for _, p := range protocols {
			for _, shared := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/shared=%v", tt.name, p.name, shared), func(t *testing.T) {
					var opts []middleware.Option
					if shared {
						opts = append(opts, middleware.WithJoin(join.New(nil)))
					}
					locks := guardtest.NewLosable()
					router := gin.New()
					router.POST("/", ginlock.New(locks, user, opts...), func(c *gin.Context) {
						tt.h(c)
						guardtest.Lose(c.Request.Context(), lock.ErrInterrupted)
					})
					srv := serve(t, p.http2, router)
					resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL, ""))
					require.NoError(t, err)
					defer resp.Body.Close()
					body, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					assert.Equal(t, http.StatusConflict, resp.StatusCode)
					assert.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
					assert.Contains(t, string(body), `"reason":"interrupted"`)
					requireFree(t, locks)
				})
			}
		}
	}
}

// A response that is half written when its handler is cut off reaches nobody
// as a whole one, though gin.Recovery swallows the panic that breaks it off.
func TestCutOffHalfWritten(t *testing.T) {
	tests := []struct {
		name string
		h    gin.HandlerFunc
	}{
		{"chunked", func(c *gin.Context) { c.SSEvent("", "half"); c.Writer.Flush() }},
		{"chunked, longer than the buffers", func(c *gin.Context) { c.String(http.StatusOK, strings.Repeat("half", 1<<14)) }},
		{"still in the buffer", func(c *gin.Context) { c.String(http.StatusOK, "half") }},
		{"status only", func(c *gin.Context) { c.Writer.WriteHeaderNow() }},
		{"less than the Content-Length", func(c *gin.Context) {
			c.Header("Content-Length", "10")
			c.String(http.StatusOK, "half")
		}},
		{"less than the Content-Length, flushed", func(c *gin.Context) {
			c.Header("Content-Length", "10")
			c.String(http.StatusOK, "half")
			c.Writer.Flush()
		}},
	}
	for _, tt := range tests {
		for _, p := range protocols {
			for _, recovery := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/recovery=%v", tt.name, p.name, recovery), func(t *testing.T) {
					locks := guardtest.NewLosable()
					router := gin.New()
					if recovery {
						router.Use(gin.Recovery())
					}
					router.POST("/", ginlock.New(locks, user), func(c *gin.Context) {
						tt.h(c)
						guardtest.Lose(c.Request.Context(), lock.ErrExpired)
					})
					srv := serve(t, p.http2, router)
					resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL, ""))
					if err == nil {
						_, err = io.ReadAll(resp.Body)
						resp.Body.Close()
					}
					require.Error(t, err)
					requireFree(t, locks)
				})
			}
		}
	}
}

// A response that is whole by what it declared stays as it is.
func TestCutOffWhenComplete(t *testing.T) {
	tests := []struct {
		name   string
		method string
		h      gin.HandlerFunc
		status int
		body   string
	}{
		{"all of the Content-Length", http.MethodPost, func(c *gin.Context) {
			c.Header("Content-Length", "5")
			c.String(http.StatusCreated, "whole")
		}, 201, "whole"},
		{"no content", http.MethodPost, func(c *gin.Context) { c.AbortWithStatus(http.StatusNoContent) }, 204, ""},
		{"HEAD", http.MethodHead, func(c *gin.Context) { c.String(http.StatusOK, "whole") }, 200, ""},
	}
	for _, tt := range tests {
		for _, p := range protocols {
			t.Run(tt.name+"/"+p.name, func(t *testing.T) {
				var seen guardtest.Events
				router := gin.New()
				router.Handle(tt.method, "/", ginlock.New(guardtest.NewLosable(), user, middleware.WithObserver(seen.Observe)), func(c *gin.Context) {
					tt.h(c)
					guardtest.Lose(c.Request.Context(), lock.ErrExpired)
				})
				srv := serve(t, p.http2, router)
				resp, err := srv.Client().Do(request(t, tt.method, srv.URL, ""))
				require.NoError(t, err)
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.Equal(t, tt.status, resp.StatusCode)
				assert.Equal(t, tt.body, string(body))
				guardtest.Await[lock.Released](t, &seen)
				assert.Len(t, seen.All(), 2)
			})
		}
	}
}

// A connection that is taken over works on, also after the lease was lost and
// the handler has returned.
func TestHijack(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("lost=", lost), func(t *testing.T) {
			var seen guardtest.Events
			locks := guardtest.NewLosable()
			served := make(chan struct{})
			router := gin.New()
			router.GET("/", ginlock.New(locks, user, middleware.WithObserver(seen.Observe)), func(c *gin.Context) {
				conn, rw, err := c.Writer.Hijack()
				if !assert.NoError(t, err) {
					return
				}
				if lost {
					guardtest.Lose(c.Request.Context(), lock.ErrStolen)
				}
				go func() {
					defer close(served)
					defer conn.Close()
					guardtest.Await[lock.Released](t, &seen)
					line, err := rw.ReadString('\n')
					assert.NoError(t, err)
					fmt.Fprint(rw, line)
					assert.NoError(t, rw.Flush())
				}()
			})
			srv := serve(t, false, router)
			conn, err := net.Dial("tcp", srv.Listener.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-User-ID: u1\r\n\r\n")
			guardtest.Await[lock.Released](t, &seen)
			fmt.Fprint(conn, "hello\n")
			echo, err := io.ReadAll(bufio.NewReader(conn))
			require.NoError(t, err)
			assert.Equal(t, "hello\n", string(echo))
			<-served
			requireFree(t, locks)
			assert.Len(t, seen.All(), 2)
		})
	}
}

// A DenyFunc may answer with a status and no body, which gin only notes at
// first.
func TestDenyFuncWithoutABody(t *testing.T) {
	deny := func(w http.ResponseWriter, r *http.Request, _ middleware.Denial) {
		http.Redirect(w, r, "/busy", http.StatusSeeOther)
	}
	router := gin.New()
	router.POST("/", ginlock.New(memlock.New(), user, middleware.WithDeny(deny)), func(*gin.Context) {})
	w := httptest.NewRecorder()
	r := request(t, http.MethodPost, "/", "")
	r.Header.Del("X-User-ID")
	router.ServeHTTP(w, r)
	assert.Equal(t, http.StatusSeeOther, w.Code)
	assert.Equal(t, "/busy", w.Header().Get("Location"))

	silent := func(http.ResponseWriter, *http.Request, middleware.Denial) {}
	router.PUT("/", ginlock.New(memlock.New(), user, middleware.WithDeny(silent)), func(*gin.Context) {})
	w = httptest.NewRecorder()
	r.Method = http.MethodPut
	router.ServeHTTP(w, r)
	assert.Equal(t, http.StatusBadRequest, w.Code)
}
