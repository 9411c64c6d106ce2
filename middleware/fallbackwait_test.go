package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// The wait is for the primary, the fallback and the body together.
func TestFallbackSharesTheWait(t *testing.T) {
	for _, down := range []bool{false, true} {
		for _, body := range []string{"", "text"} {
			t.Run(fmt.Sprintf("down=%v/body=%q", down, body), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					primary, mem := guardtest.NewPrimary(0), memlock.New()
					g := newGuard(t, primary, middleware.WithFallback(mem), middleware.WithWait(5*time.Second))
					inPrimary, inMem := hold(t, primary), hold(t, mem)
					time.AfterFunc(3*time.Second, func() {
						if down {
							primary.Fail(lock.ErrUnavailable)
							return
						}
						_ = inPrimary.Release(t.Context())
					})
					r := request(t, http.MethodPost, "/")
					if body != "" {
						r = httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
						r.Header.Set("X-User-ID", "u1")
					}
					began := time.Now()
					w := httptest.NewRecorder()
					g.Serve(w, r, http.HandlerFunc(nothing))
					assert.Equal(t, http.StatusTooManyRequests, w.Code)
					assert.Equal(t, 5*time.Second, time.Since(began))
					require.NoError(t, inMem.Release(t.Context()))
					_ = inPrimary.Release(t.Context())
				})
			})
		}
	}
}

// The client goes while its request waits in the fallback.
func TestClientLeavesWhileWaitingInTheFallback(t *testing.T) {
	for _, down := range []error{nil, lock.ErrUnavailable} {
		t.Run(fmt.Sprint(down), func(t *testing.T) {
			var seen guardtest.Events
			primary, mem := guardtest.NewPrimary(0), memlock.New()
			primary.Fail(down)
			waits := make(chan struct{})
			held := hold(t, mem)
			g := newGuard(t, primary, middleware.WithFallback(&tryFirst{mem, waits}), middleware.WithWait(time.Minute), middleware.WithObserver(seen.Observe))
			srv := guarded(t, http1, g, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
			ctx, hangUp := context.WithCancel(t.Context())
			go func() { <-waits; hangUp() }()
			_, err := srv.Client().Do(request(t, http.MethodPost, srv.URL).WithContext(ctx))
			require.ErrorIs(t, err, context.Canceled)
			guardtest.Await[lock.Abandoned](t, &seen)
			assert.Len(t, seen.All(), 1)
			assert.Zero(t, primary.Held())
			require.NoError(t, held.Release(t.Context()))
			requireFree(t, mem)
		})
	}
}

// tryFirst tells when somebody is about to wait.
type tryFirst struct {
	lock.Locker
	waits chan struct{}
}

func (l *tryFirst) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	close(l.waits)
	return l.Locker.Acquire(ctx, key, o)
}

// An interrupt reaches whoever runs, with whatever lease.
func TestFallbackInterrupt(t *testing.T) {
	tests := []struct {
		name    string
		started error // what the primary says when the handler starts
		asked   error // and when it is to be interrupted
	}{
		{"no outage", nil, nil},
		{"started before the outage", nil, lock.ErrUnavailable},
		{"started during the outage", lock.ErrUnavailable, nil},
		{"all during the outage", lock.ErrUnavailable, lock.ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			primary := guardtest.NewPrimary(0)
			primary.Fail(tt.started)
			g := newGuard(t, primary, middleware.WithFallback(memlock.New()))
			w := send(t, g, func(_ http.ResponseWriter, r *http.Request) {
				primary.Fail(tt.asked)
				held, err := g.Interrupt(context.Background(), "u1")
				assert.NoError(t, err)
				assert.True(t, held)
				<-r.Context().Done()
				assert.ErrorIs(t, context.Cause(r.Context()), lock.ErrInterrupted)
			})
			assert.Equal(t, http.StatusConflict, w.Code)
			held, err := g.Interrupt(t.Context(), "u1")
			assert.False(t, held)
			assert.ErrorIs(t, err, tt.asked)
		})
	}
	t.Run("the fallback cannot be asked", func(t *testing.T) {
		primary := guardtest.NewPrimary(0)
		g := newGuard(t, primary, middleware.WithFallback(&stub{err: lock.ErrUnavailable}))
		held, err := g.Interrupt(t.Context(), "u1")
		assert.NoError(t, err)
		assert.False(t, held)
		lease := hold(t, primary) // by another process
		held, err = g.Interrupt(t.Context(), "u1")
		assert.NoError(t, err)
		assert.True(t, held)
		assert.ErrorIs(t, context.Cause(lease.Context()), lock.ErrInterrupted)
	})
	// Another process asks the primary, whose holder here waits for one that the
	// fallback let in.
	t.Run("by way of who waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			primary := guardtest.NewPrimary(0)
			primary.Fail(lock.ErrUnavailable)
			g := newGuard(t, primary, middleware.WithFallback(memlock.New()))
			codes := make(chan int, 2)
			go func() {
				codes <- send(t, g, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }).Code
			}()
			synctest.Wait()
			primary.Fail(nil)
			go func() { codes <- send(t, g, nothing).Code }()
			synctest.Wait()
			held, err := primary.Interrupt(t.Context(), "u1")
			require.NoError(t, err)
			assert.True(t, held)
			assert.Equal(t, []int{http.StatusConflict, http.StatusConflict}, []int{<-codes, <-codes})
			assert.Zero(t, primary.Held())
		})
	})
}

// keeping is a Locker that gives nothing out for a while, as after a restart.
type keeping struct {
	lock.Locker
	left time.Duration
}

func (k keeping) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	if o.Wait < k.left {
		return nil, &lock.UnavailableError{Err: lock.ErrUnavailable, After: k.left}
	}
	return k.Locker.Acquire(ctx, key, o)
}

// A key that is kept back is waited for, if that is not for too long, also by a request
// that asks without waiting first because of its body. Otherwise the fallback has it.
func TestFallbackAfterARestart(t *testing.T) {
	for _, tt := range []struct {
		left     time.Duration
		body     string
		fallback bool
	}{
		{time.Second, "", false},
		{time.Second, "{}", false},
		{time.Minute, "", true},
		{time.Minute, "{}", true},
		{2 * time.Second, "{}", true}, // it was worth waiting, and is not any more
	} {
		t.Run(fmt.Sprint(tt.left, tt.body), func(t *testing.T) {
			var seen guardtest.Events
			g := newGuard(t, keeping{memlock.New(), tt.left}, middleware.WithFallback(memlock.New()), middleware.WithWait(2*time.Second), middleware.WithObserver(seen.Observe))
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(tt.body))
			r.Header.Set("X-User-ID", "alice")
			w := httptest.NewRecorder()
			require.True(t, g.Serve(w, r, http.HandlerFunc(nothing)))
			require.Equal(t, tt.fallback, guardtest.Of[lock.Acquired](&seen)[0].Fallback)
		})
	}
}
