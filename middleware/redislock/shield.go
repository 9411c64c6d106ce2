package redislock

import (
	"context"
	"log/slog"

	"github.com/reqlock/reqlock/middleware/lock"
)

// shielded returns an Observer whose panics are logged. They would leave a turn
// taken, or end the process where they happen in the background.
func shielded(observe lock.Observer) lock.Observer {
	return func(ctx context.Context, e lock.Event) {
		defer func() {
			if p := recover(); p != nil {
				slog.ErrorContext(ctx, "reqlock: an observer panicked", "event", e, "panic", p)
			}
		}()
		observe(ctx, e)
	}
}
