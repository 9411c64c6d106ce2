package middleware_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
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

// A handler that does not care for its context keeps its key until it returns;
// that it overran is told at once.
func TestMaxHoldOfAHandlerThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen guardtest.Events
		locks := memlock.New()
		g := newGuard(t, locks, middleware.WithMaxHold(time.Minute), middleware.WithObserver(seen.Observe))
		release := make(chan struct{})
		first := make(chan *httptest.ResponseRecorder)
		go func() { first <- send(t, g, func(http.ResponseWriter, *http.Request) { <-release }) }()

		time.Sleep(time.Minute - 1)
		synctest.Wait()
		require.Len(t, seen.All(), 1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		fence := seen.All()[0].(lock.Acquired).Fence
		require.Equal(t, lock.Overran{Key: "u1", Fence: fence, Hold: time.Minute}, seen.All()[1])

		require.Equal(t, http.StatusTooManyRequests, send(t, g, nothing).Code)
		time.Sleep(time.Hour)
		close(release)
		require.Equal(t, http.StatusGatewayTimeout, (<-first).Code)
		require.Len(t, guardtest.Of[lock.Overran](&seen), 1)
		require.Equal(t, time.Hour+time.Minute+middleware.DefaultWait, guardtest.Of[lock.Released](&seen)[0].Hold)
		require.Equal(t, http.StatusOK, send(t, g, nothing).Code)
	})
}

// Overran comes once and before Released, or not at all, whatever the handler
// does.
func TestOverran(t *testing.T) {
	wait := func(r *http.Request) { <-r.Context().Done() }
	tests := []struct {
		name    string
		h       http.HandlerFunc
		overran bool
	}{
		{"in time", nothing, false},
		{"stops when it is asked to", func(_ http.ResponseWriter, r *http.Request) { wait(r) }, true},
		{"panics then", func(_ http.ResponseWriter, r *http.Request) { wait(r); panic("late") }, true},
		{"ends its goroutine then", func(_ http.ResponseWriter, r *http.Request) { wait(r); runtime.Goexit() }, true},
		{"goes on", func(http.ResponseWriter, *http.Request) { time.Sleep(time.Hour) }, true},
		{"is interrupted", func(_ http.ResponseWriter, r *http.Request) {
			guardtest.Lose(r.Context(), lock.ErrInterrupted)
			time.Sleep(time.Hour)
		}, false},
		{"loses its lease", func(_ http.ResponseWriter, r *http.Request) {
			guardtest.Lose(r.Context(), lock.ErrStolen)
			time.Sleep(time.Hour)
		}, false},
		{"releases by itself", func(_ http.ResponseWriter, r *http.Request) {
			lease, _ := lock.From(r.Context())
			_ = lease.Release(r.Context())
			time.Sleep(time.Hour)
		}, false},
		{"panics in time", func(http.ResponseWriter, *http.Request) { panic("early") }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen guardtest.Events
				var inner context.Context
				locks := &tap{guardtest.NewLosable(), &inner}
				slow := func(ctx context.Context, e lock.Event) {
					if _, ok := e.(lock.Overran); ok {
						time.Sleep(time.Second) // and what comes next waits
					}
					seen.Observe(ctx, e)
				}
				g := newGuard(t, locks, middleware.WithMaxHold(time.Minute), middleware.WithObserver(slow))
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					send(t, g, func(w http.ResponseWriter, r *http.Request) {
						tt.h(w, r.WithContext(losable{r.Context(), inner}))
					})
				}()
				<-done
				time.Sleep(time.Hour) // nothing comes later
				synctest.Wait()
				var order []string
				for _, e := range seen.All() {
					switch e.(type) {
					case lock.Overran, lock.Released:
						order = append(order, fmt.Sprintf("%T", e))
					}
				}
				if tt.overran {
					assert.Equal(t, []string{"lock.Overran", "lock.Released"}, order)
				} else {
					assert.Equal(t, []string{"lock.Released"}, order)
				}
				requireFree(t, locks)
			})
		})
	}
}

// losable has the values of the lease that guardtest.Lose knows.
type losable struct {
	context.Context
	inner context.Context
}

func (c losable) Value(key any) any { return c.inner.Value(key) }

// A stream that is cut in the middle: what was sent arrives, and then an error.
func TestMaxHoldCutsAStream(t *testing.T) {
	for _, p := range protocols {
		for _, down := range []error{nil, lock.ErrUnavailable} {
			t.Run(fmt.Sprintf("%s/primary=%v", p.name, down), func(t *testing.T) {
				var seen guardtest.Events
				primary, mem := guardtest.NewPrimary(0), memlock.New()
				primary.Fail(down)
				g := newGuard(t, primary, middleware.WithFallback(mem), middleware.WithMaxHold(50*time.Millisecond), middleware.WithObserver(seen.Observe))
				arrived := make(chan struct{})
				srv := guarded(t, p, g, func(w http.ResponseWriter, r *http.Request) {
					write(w, "token\n")
					flush(w)
					<-arrived
					<-r.Context().Done()
				})
				resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
				require.NoError(t, err)
				defer resp.Body.Close()
				require.Equal(t, http.StatusOK, resp.StatusCode)
				body := bufio.NewReader(resp.Body)
				line, err := body.ReadString('\n')
				require.NoError(t, err)
				require.Equal(t, "token\n", line)
				close(arrived)
				rest, err := io.ReadAll(body)
				require.Error(t, err)
				require.Empty(t, rest)
				require.Equal(t, "max_hold", guardtest.Await[lock.Denied](t, &seen).Reason)
				require.Len(t, guardtest.Of[lock.Overran](&seen), 1)
				requireFree(t, mem)
				require.Zero(t, primary.Held())
			})
		}
	}
}

// An observer that panics where nobody would recover does so where somebody may.
func TestOverranObserverPanics(t *testing.T) {
	told := make(chan struct{})
	g := newGuard(t, memlock.New(), middleware.WithMaxHold(time.Millisecond), middleware.WithObserver(func(_ context.Context, e lock.Event) {
		if _, ok := e.(lock.Overran); ok {
			defer close(told)
			panic("observer")
		}
	}))
	require.PanicsWithValue(t, "observer", func() {
		send(t, g, func(http.ResponseWriter, *http.Request) { <-told })
	})
}
