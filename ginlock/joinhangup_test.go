package ginlock_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

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
