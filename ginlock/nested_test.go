package ginlock_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/ginlock"
	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// A guard on a group, one with another key further in, and the first key again on
// the route: one lease for each key.
func TestNestedGuards(t *testing.T) {
	locks := memlock.New()
	var seen guardtest.Events
	guard := func(key keyfuncs.Func) gin.HandlerFunc {
		return ginlock.New(locks, key, middleware.WithWait(0), middleware.WithObserver(seen.Observe))
	}
	router := gin.New()
	group := router.Group("/sessions/:session", guard(user))
	group.Use(guard(keyfuncs.PathValue("session")))
	group.POST("", guard(user), guard(keyfuncs.PathValue("session")), func(c *gin.Context) {
		lease, ok := lock.From(c.Request.Context())
		assert.True(t, ok)
		body, err := io.ReadAll(c.Request.Body)
		assert.NoError(t, err)
		c.String(http.StatusOK, "%s %s", lease.Key(), body)
	})
	srv := serve(t, false, router)
	for range 2 {
		resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL+"/sessions/s1", "text"))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, "s1 text", string(body))
	}
	require.Eventually(t, func() bool { return len(guardtest.Of[lock.Released](&seen)) == 4 }, 10*time.Second, time.Millisecond)
	require.Len(t, seen.All(), 8)
	requireFree(t, locks)
}

// The outer guard may be net/http's, around the router.
func TestNestedInNetHTTP(t *testing.T) {
	locks := memlock.New()
	router := gin.New()
	router.POST("/", ginlock.New(locks, user, middleware.WithWait(0)), func(c *gin.Context) { c.String(http.StatusOK, "ran") })
	w := httptest.NewRecorder()
	httplock.New(locks, user)(router).ServeHTTP(w, request(t, http.MethodPost, "/", ""))
	require.Equal(t, "ran", w.Body.String())
	requireFree(t, locks)
}

// The inner guard's MaxHold bounds its handler, and answers for it.
func TestNestedMaxHold(t *testing.T) {
	for _, half := range []bool{false, true} {
		for _, p := range protocols {
			var seen guardtest.Events
			locks := memlock.New()
			router := gin.New()
			router.Use(gin.Recovery(), ginlock.New(locks, user))
			router.POST("/", ginlock.New(locks, user, middleware.WithMaxHold(20*time.Millisecond), middleware.WithObserver(seen.Observe)), func(c *gin.Context) {
				if half {
					c.SSEvent("", "half")
					c.Writer.Flush()
				}
				<-c.Request.Context().Done()
			})
			srv := serve(t, p.http2, router)
			resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL, ""))
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if half {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				require.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
			}
			guardtest.Await[lock.Denied](t, &seen)
			require.Len(t, guardtest.Of[lock.Overran](&seen), 1)
			require.Len(t, seen.All(), 2)
		}
	}
}

// A request runs with the fallback, and excludes those after it.
func TestFallback(t *testing.T) {
	primary := guardtest.NewPrimary(0)
	var seen guardtest.Events
	router := gin.New()
	inside := make(chan int, 1)
	first := true
	router.POST("/", ginlock.New(primary, user, middleware.WithFallback(memlock.New()), middleware.WithWait(0), middleware.WithObserver(seen.Observe)), func(c *gin.Context) {
		lease, _ := lock.From(c.Request.Context())
		assert.NotZero(t, lease.Fence())
		if first {
			first = false
			w := httptest.NewRecorder()
			primary.Fail(nil)
			router.ServeHTTP(w, request(t, http.MethodPost, "/", ""))
			inside <- w.Code
		}
		c.String(http.StatusOK, "ran")
	})
	primary.Fail(lock.ErrUnavailable)
	w := httptest.NewRecorder()
	router.ServeHTTP(w, request(t, http.MethodPost, "/", ""))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, http.StatusTooManyRequests, <-inside)
	require.True(t, guardtest.Of[lock.Acquired](&seen)[0].Fallback)
	require.Zero(t, primary.Held())
}
