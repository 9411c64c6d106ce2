// Package httplock is the net/http middleware: requests with equal keys reach
// the handler one at a time, across every process that shares the
// [lock.Locker].
//
//	key := keyfuncs.Join(keyfuncs.Header("X-User-ID"), keyfuncs.PathValue("session"))
//	guard := httplock.New(locks, key, middleware.WithWait(3*time.Second))
//	mux.Handle("POST /sessions/{session}/messages", guard(chat))
//
// Package middleware says what happens to a request, what the options do, and
// where the middleware belongs among others.
package httplock

import (
	"fmt"
	"net/http"

	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
)

// New returns the middleware for a [middleware.Guard] of its own. It panics,
// with an error that lists all of it, on what [middleware.NewGuard] refuses.
func New(l lock.Locker, key keyfuncs.Func, opts ...middleware.Option) func(http.Handler) http.Handler {
	g, err := middleware.NewGuard(l, key, opts...)
	if err != nil {
		panic(fmt.Errorf("httplock: New: %w", err))
	}
	return Wrap(g)
}

// Wrap returns the middleware for a Guard that is used elsewhere, too: by
// another route, or to interrupt. It panics where g is nil, as the middleware
// does, when it wraps, where its handler is.
func Wrap(g *middleware.Guard) func(http.Handler) http.Handler {
	if g == nil {
		panic("httplock: Wrap: the Guard is nil")
	}
	return func(next http.Handler) http.Handler {
		if f, ok := next.(http.HandlerFunc); next == nil || ok && f == nil {
			panic("httplock: the handler to wrap is nil")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g.Serve(w, r, next)
		})
	}
}
