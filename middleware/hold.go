package middleware

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// hold runs next under the lease and gives it back on every way out: next
// returns, panics or ends its goroutine. It does not recover, so that the
// stack of a panic stays whole. It returns why the context of next had ended
// when that returned, nil where it had not.
func (g *Guard) hold(w http.ResponseWriter, r *http.Request, body io.ReadCloser, next http.Handler, lease lock.Lease, wait time.Duration) error {
	ctx := lease.Context()
	if g.maxHold > 0 {
		var stop context.CancelFunc
		ctx, stop = withMaxHold(lease, g.maxHold)
		defer stop() // after the release, so that ErrReleased is the cause
	}
	start := time.Now()
	defer func() { g.release(r, lease, time.Since(start)) }()
	g.observer(ctx, lock.Acquired{Key: lease.Key(), Fence: lease.Fence(), Wait: wait})
	held := r.WithContext(ctx)
	held.Body = body
	// net/http removes the files of a form from its own request only.
	defer func() { r.MultipartForm = held.MultipartForm }()
	next.ServeHTTP(w, held)
	return context.Cause(ctx)
}

// release is detached from the request: a client that has gone must not leave
// its key behind.
func (g *Guard) release(r *http.Request, lease lock.Lease, hold time.Duration) {
	g.holds.observe(hold)
	ctx := context.WithoutCancel(r.Context())
	err := lease.Release(ctx)
	g.observer(ctx, lock.Released{Key: lease.Key(), Fence: lease.Fence(), Hold: hold, Err: err})
}

// withMaxHold returns a context that ends with ErrMaxHold once d is over, and
// in which lock.From finds a lease with that same context. There is a timer
// behind it and no goroutine.
func withMaxHold(lease lock.Lease, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithTimeoutCause(lease.Context(), d, lock.ErrMaxHold)
	l := &boundedLease{Lease: lease}
	l.ctx = lock.NewContext(ctx, l)
	return l.ctx, stop
}

type boundedLease struct {
	lock.Lease
	ctx context.Context
}

func (l *boundedLease) Context() context.Context { return l.ctx }
