package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/reqlock/reqlock/middleware/lock"
)

// errShutdown is why answers and requests end that take longer than a shutdown
// waits. It tells the guard that those which still wait for a turn have not
// left: it answers them with 503.
var errShutdown = errors.New("the server is shutting down")

// answersKey has the context that ends when a shutdown cuts answers off.
type answersKey struct{}

// untilShutdown returns the context for an answer. The clients' own go on after
// it, so that they can be told.
func untilShutdown(ctx context.Context) (context.Context, context.CancelFunc) {
	answers, ok := ctx.Value(answersKey{}).(context.Context)
	if !ok {
		return context.WithCancel(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(answers, func() { cancel(context.Cause(answers)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// whyCut says, in an answer that has begun, why it stops.
func whyCut(ctx context.Context) *apiError {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, lock.ErrLost):
		return &apiError{status: http.StatusServiceUnavailable, message: "The answer was cut off: the lock on the session was lost.", code: "lost"}
	case errors.Is(cause, errShutdown):
		return &apiError{status: http.StatusServiceUnavailable, message: "The answer was cut off: the server is shutting down.", code: "shutting_down"}
	default:
		return &apiError{status: http.StatusBadGateway, message: "The answer was cut off.", code: "cut_off"}
	}
}

// writeStopped answers a request that was stopped before its answer had begun.
// Where the lock is why, the guard does; where the client has gone, nobody
// listens.
func writeStopped(w http.ResponseWriter, ctx context.Context) {
	if errors.Is(context.Cause(ctx), errShutdown) {
		w.Header().Set("Retry-After", "1")
		writeError(w, &apiError{status: http.StatusServiceUnavailable, message: "The server is shutting down.", code: "shutting_down"})
	}
}
