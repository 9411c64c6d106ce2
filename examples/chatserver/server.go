package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/reqlock/reqlock/ginlock"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
	"github.com/reqlock/reqlock/middleware/lock"
)

const (
	drainTime = 10 * time.Second // a shutdown lets answers go on
	lastWords = time.Second      // to tell those that wait, and then those that still do
)

// newGuard has a session's messages answered one at a time, and those that are equal
// and there at the same time with one answer.
func newGuard(l lock.Locker, wait time.Duration, f fallback) gin.HandlerFunc {
	return ginlock.New(l, sessionKey, append(f.options(),
		middleware.WithWait(wait),
		middleware.WithJoin(join.New(nil)),
		middleware.WithDeny(middleware.OpenAIErrors))...)
}

// newHandler has the routes. The guard is around the only one whose requests
// must not overtake each other.
func newHandler(b backend, guard gin.HandlerFunc, page *page) http.Handler {
	router := gin.New()
	router.HandleMethodNotAllowed = true
	router.RedirectTrailingSlash = false // clients would take it for an answer
	router.Use(logRequest, recoverPanic, limitStalls(writeTimeout))

	router.GET("/healthz", func(c *gin.Context) { c.String(http.StatusOK, "ok\n") })
	page.register(router)
	v1 := router.Group("/v1")
	v1.GET("/models", func(c *gin.Context) { b.models(c.Writer, c.Request) })
	v1.POST("/chat/completions", prepare(b), guard, answer)

	router.NoRoute(func(c *gin.Context) {
		notFound(c, http.StatusNotFound, "unknown_url")
	})
	router.NoMethod(func(c *gin.Context) {
		notFound(c, http.StatusMethodNotAllowed, "method_not_supported")
	})
	return router
}

func notFound(c *gin.Context, status int, code string) {
	if !strings.HasPrefix(c.Request.URL.Path, "/v1/") {
		c.String(status, "%s\n", http.StatusText(status))
		return
	}
	writeError(c.Writer, &apiError{
		status:  status,
		message: "There is no " + c.Request.Method + " " + c.Request.URL.Path + " here.",
		code:    code,
	})
}

func logRequest(c *gin.Context) {
	start := time.Now()
	defer func() {
		r := c.Request
		if r.URL.Path == "/healthz" || r.URL.Path == statusPath {
			return // asked all the time
		}
		about := []any{"method", r.Method, "path", r.URL.Path, "status", c.Writer.Status(), "took", time.Since(start).Round(time.Millisecond)}
		if role := c.Writer.Header().Get(middleware.RoleHeader); role != "" {
			about = append(about, "role", role)
		}
		slog.Info("request", about...)
	}()
	c.Next()
}

// recoverPanic lets http.ErrAbortHandler pass, unlike gin's: it is how a
// response is broken off.
func recoverPanic(c *gin.Context) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p != http.ErrAbortHandler {
			slog.Error("panic", "value", p, "stack", string(debug.Stack()))
			if !c.Writer.Written() {
				c.Abort()
				writeError(c.Writer, &apiError{status: http.StatusInternalServerError, message: "The server has failed.", code: "internal_error"})
				return
			}
		}
		panic(http.ErrAbortHandler)
	}()
	c.Next()
}

// serve serves until ctx is done, then lets requests finish for drain at most,
// and cuts off the rest: answers first, so that they can still say why they end, to all
// who wait for them. With them those end that wait for a turn after them. What still
// waits then, does so for another server.
func serve(ctx context.Context, l net.Listener, h http.Handler, drain time.Duration) error {
	answers, cutAnswers := context.WithCancelCause(context.Background())
	defer cutAnswers(nil)
	requests, cut := context.WithCancelCause(context.WithValue(context.Background(), answersKey{}, answers))
	defer cut(nil)
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		BaseContext:       func(net.Listener) context.Context { return requests },
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	err := shutdown(srv, drain)
	if errors.Is(err, context.DeadlineExceeded) {
		slog.Warn("cutting off answers that take too long")
		cutAnswers(errShutdown)
		if err = shutdown(srv, lastWords); err != nil {
			cut(errShutdown)
			err = shutdown(srv, lastWords)
		}
		if err != nil {
			err = srv.Close()
		}
	}
	<-failed // http.ErrServerClosed
	return err
}

func shutdown(srv *http.Server, most time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	return srv.Shutdown(ctx)
}
