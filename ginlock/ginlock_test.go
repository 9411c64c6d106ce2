package ginlock_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/ginlock"
	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

func TestPanicsOnMisuse(t *testing.T) {
	assert.PanicsWithValue(t, "ginlock: Wrap: the Guard is nil", func() { ginlock.Wrap(nil) })
	assert.PanicsWithValue(t, "ginlock: Value: the name is empty", func() { ginlock.Value("") })
	defer func() {
		err, ok := recover().(error)
		require.True(t, ok)
		for _, want := range []string{"ginlock: New: ", "the lock.Locker is nil", "the key function is nil", "WithWait"} {
			assert.ErrorContains(t, err, want)
		}
	}()
	ginlock.New((*memlock.Locker)(nil), nil, middleware.WithWait(-time.Second))
}

// Requests to a router with a guarded group and routes outside of it.
func TestGroup(t *testing.T) {
	calls := 0
	handler := func(c *gin.Context) {
		calls++
		lease, _ := lock.From(c.Request.Context())
		c.String(http.StatusOK, lease.Key())
	}
	router := gin.New()
	router.HandleMethodNotAllowed = true
	router.GET("/healthz", func(c *gin.Context) { c.String(http.StatusOK, "ok") })
	locks := memlock.New()
	chats := router.Group("/sessions/:session")
	chats.Use(ginlock.New(locks, keyfuncs.Join(user, keyfuncs.PathValue("session"))))
	chats.POST("/messages", handler)
	router.POST("/json", ginlock.New(locks, keyfuncs.JSON("user")), handler)
	srv := serve(t, false, router)

	large := `{"user":"u1","text":"` + strings.Repeat("x", 2<<20) + `"}`
	tests := []struct {
		name   string
		method string
		path   string
		user   string
		body   string
		status int
		want   string
	}{
		{"parameter", http.MethodPost, "/sessions/s1/messages", "u1", "", 200, "u1:s1"},
		{"missing header", http.MethodPost, "/sessions/s1/messages", "", "", 400, `header \"X-User-ID\": missing`},
		{"JSON", http.MethodPost, "/json", "", `{"user":"u1"}`, 200, "u1"},
		{"invalid JSON", http.MethodPost, "/json", "", `{"user":`, 400, "malformed"},
		{"duplicate JSON key", http.MethodPost, "/json", "", `{"user":"u1","user":"u2"}`, 400, "malformed"},
		{"2 MiB body", http.MethodPost, "/json", "", large, 413, "body_too_large"},
		{"outside of the group", http.MethodGet, "/healthz", "", "", 200, "ok"},
		{"no route", http.MethodGet, "/nowhere", "", "", 404, "404"},
		{"no route inside the group", http.MethodGet, "/sessions/s1/nowhere", "", "", 404, "404"},
		{"other method", http.MethodGet, "/json", "", "", 405, "405"},
	}
	served := 0
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(t, tt.method, srv.URL+tt.path, tt.body)
			r.Header.Del("X-User-ID")
			if tt.user != "" {
				r.Header.Set("X-User-ID", tt.user)
			}
			resp, err := srv.Client().Do(r)
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, tt.status, resp.StatusCode)
			assert.Contains(t, string(body), tt.want)
			if tt.status == http.StatusBadRequest || tt.status == http.StatusRequestEntityTooLarge {
				assert.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
			}
		})
		if tt.status == http.StatusOK && tt.method == http.MethodPost {
			served++
		}
	}
	assert.Equal(t, served, calls)
}

// On the whole router, too, what matched no route needs no key.
func TestUseOnRouterPassesWhatMatchedNoRoute(t *testing.T) {
	router := gin.New()
	router.HandleMethodNotAllowed = true
	router.Use(ginlock.New(memlock.New(), user))
	router.GET("/", func(c *gin.Context) {})
	tests := []struct {
		method string
		path   string
		status int
	}{
		{http.MethodGet, "/", http.StatusBadRequest},
		{http.MethodGet, "/nowhere", http.StatusNotFound},
		{http.MethodPost, "/", http.StatusMethodNotAllowed},
	}
	for _, tt := range tests {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		assert.Equal(t, tt.status, w.Code, tt.path)
	}
}

// Denied: no later handler runs, and one before it sees the status.
func TestH34_DeniedAborts(t *testing.T) {
	locks := memlock.New()
	lease, err := locks.Acquire(t.Context(), "u1", lock.Options{})
	require.NoError(t, err)
	defer lease.Release(t.Context())

	ran, status := 0, 0
	count := func(*gin.Context) { ran++ }
	router := gin.New()
	router.Use(func(c *gin.Context) {
		c.Next()
		status = c.Writer.Status()
		assert.True(t, c.IsAborted())
	})
	router.POST("/", ginlock.New(locks, user, middleware.WithWait(0)), count, count)
	w := httptest.NewRecorder()
	router.ServeHTTP(w, request(t, http.MethodPost, "/", ""))
	assert.Zero(t, ran)
	assert.Equal(t, http.StatusTooManyRequests, status)
	assert.Equal(t, http.StatusTooManyRequests, w.Code)
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
	assert.Contains(t, w.Body.String(), `"reason":"busy"`)
}

func TestClientThatLeftIsA499InTheLog(t *testing.T) {
	router := gin.New()
	router.POST("/", ginlock.New(memlock.New(), user), func(*gin.Context) { t.Error("the handler ran") })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	router.ServeHTTP(w, request(t, http.MethodPost, "/", "").WithContext(ctx))
	assert.Equal(t, 499, w.Code)
}

// The handlers get the guarded request, those before it their own again.
func TestRequestOfTheHandlers(t *testing.T) {
	type outer struct{}
	router := gin.New()
	router.ContextWithFallback = true
	router.Use(func(c *gin.Context) {
		c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), outer{}, "kept"))
		own, writer := c.Request, c.Writer
		c.Next()
		assert.Same(t, own, c.Request)
		assert.Same(t, writer, c.Writer)
	})
	var seen guardtest.Events
	router.POST("/:id", ginlock.New(memlock.New(), user, middleware.WithObserver(seen.Observe)), func(c *gin.Context) {
		lease, ok := lock.From(c.Request.Context())
		require.True(t, ok)
		assert.Equal(t, c.Request.Context(), lease.Context())
		assert.Equal(t, "kept", c.Request.Context().Value(outer{}))
		assert.Equal(t, "7", c.Request.PathValue("id"))
		got, ok := lock.From(c)
		assert.True(t, ok, "ContextWithFallback")
		assert.Same(t, lease, got)
		// H33: what swaps the writer and leaves it.
		c.Writer = &swapped{c.Writer}
		c.String(http.StatusCreated, "made")
	})
	w := httptest.NewRecorder()
	router.ServeHTTP(w, request(t, http.MethodPost, "/7", ""))
	assert.Equal(t, http.StatusCreated, w.Code)
	assert.Equal(t, "made", w.Body.String())
	assert.Len(t, seen.All(), 2)
}

type swapped struct{ gin.ResponseWriter }

// The next token is only written once the client has read the one before.
func TestA28_TokensArriveOneByOne(t *testing.T) {
	tokens := strings.Fields("one two three four five")
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			arrived := make(chan string)
			router := gin.New()
			router.POST("/", ginlock.New(memlock.New(), user), func(c *gin.Context) {
				for _, token := range tokens {
					c.SSEvent("", token)
					c.Writer.Flush()
					select {
					case got := <-arrived:
						assert.Equal(t, token, got)
					case <-c.Request.Context().Done():
						return
					}
				}
			})
			srv := serve(t, p.http2, router)
			resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL, ""))
			require.NoError(t, err)
			defer resp.Body.Close()
			lines := bufio.NewScanner(resp.Body)
			count := 0
			for lines.Scan() {
				if token, ok := strings.CutPrefix(lines.Text(), "data:"); ok {
					arrived <- token
					count++
				}
			}
			require.NoError(t, lines.Err())
			assert.Equal(t, len(tokens), count)
		})
	}
}

// The client hangs up while its handler holds the key.
func TestL1_ClientHangsUp(t *testing.T) {
	var seen guardtest.Events
	locks := memlock.New()
	started := make(chan struct{})
	router := gin.New()
	router.POST("/", ginlock.New(locks, user, middleware.WithObserver(seen.Observe)), func(c *gin.Context) {
		close(started)
		<-c.Request.Context().Done()
		c.String(http.StatusOK, "too late")
	})
	srv := serve(t, false, router)
	ctx, hangUp := context.WithCancel(t.Context())
	go func() { <-started; hangUp() }()
	_, err := srv.Client().Do(request(t, http.MethodPost, srv.URL, "").WithContext(ctx))
	require.ErrorIs(t, err, context.Canceled)
	guardtest.Await[lock.Released](t, &seen)
	requireFree(t, locks)
}

func TestPanicReachesRecovery(t *testing.T) {
	locks := memlock.New()
	var value any
	router := gin.New()
	router.Use(gin.CustomRecovery(func(c *gin.Context, v any) {
		value = v
		requireFree(t, locks)
		c.AbortWithStatus(http.StatusInternalServerError)
	}))
	router.POST("/", ginlock.New(locks, user), func(*gin.Context) { panic("broken") })
	w := httptest.NewRecorder()
	router.ServeHTTP(w, request(t, http.MethodPost, "/", ""))
	assert.Equal(t, "broken", value)
	assert.Equal(t, http.StatusInternalServerError, w.Code)
}
