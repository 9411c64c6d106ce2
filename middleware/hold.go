package middleware

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// hold runs next under the lease of v and gives it back on every way out: next
// returns, panics or ends its goroutine. It does not recover, so that the
// stack of a panic stays whole. onStop, which may be nil, is called when the context of
// next ends.
func (g *Guard) hold(w http.ResponseWriter, r *http.Request, body io.ReadCloser, next http.Handler, v *visit, wait time.Duration, onStop func()) *stopped {
	lease := v.lease
	ctx, limit := g.limit(lease.Context(), lease)
	if limit != nil {
		v.lease = limit
	}
	defer limit.stop() // after the release, so that ErrReleased is the cause
	if onStop != nil {
		defer context.AfterFunc(ctx, onStop)()
	}
	start := time.Now()
	defer func() { g.release(r, lease, time.Since(start)) }()
	defer limit.settle()
	fallback := g.standIn.granted(ctx, r, lease)
	g.observer(ctx, lock.Acquired{Key: lease.Key(), Fence: lease.Fence(), Wait: wait, Fallback: fallback})
	return run(ctx, w, r, body, next)
}

// run runs next with ctx. It returns what follows from that having ended when next
// returned, nil where it had not or nothing does.
func run(ctx context.Context, w http.ResponseWriter, r *http.Request, body io.ReadCloser, next http.Handler) *stopped {
	w, sent := track(w)
	guarded := r.WithContext(ctx)
	guarded.Body = body
	// net/http removes the files of a form from its own request only.
	defer func() { r.MultipartForm = guarded.MultipartForm }()
	returned := false
	defer func() {
		if !returned && !inShared(ctx) && sent.Written() && !complete(w, r, sent) {
			_ = seal(w) // a recovery further out may end it as if it were whole
		}
	}()
	next.ServeHTTP(w, guarded)
	returned = true
	cause := context.Cause(ctx)
	if reason := reasonFor(cause); reason != "" && !(sent.Written() && complete(w, r, sent)) {
		return &stopped{reason, cause, sent.Written()}
	}
	return nil
}

// release is detached from the request: a client that has gone must not leave
// its key behind.
func (g *Guard) release(r *http.Request, lease lock.Lease, hold time.Duration) {
	g.holds.observe(hold)
	ctx := context.WithoutCancel(r.Context())
	err := lease.Release(ctx)
	g.observer(ctx, lock.Released{Key: lease.Key(), Fence: lease.Fence(), Hold: hold, Err: err})
}
