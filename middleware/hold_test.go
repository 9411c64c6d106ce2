package middleware_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// Whatever a handler does, its key is free right after.
func TestReleasedWhateverTheHandlerDoes(t *testing.T) {
	tests := []struct {
		name string
		h    http.HandlerFunc
	}{
		{"answers", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "done") }},
		{"writes nothing", nothing},
		{"panics", func(http.ResponseWriter, *http.Request) { panic("broken") }},
		{"aborts", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"ends its goroutine", func(http.ResponseWriter, *http.Request) { runtime.Goexit() }},
		{"releases by itself", func(_ http.ResponseWriter, r *http.Request) {
			lease, _ := lock.From(r.Context())
			_ = lease.Release(r.Context())
		}},
	}
	for _, tt := range tests {
		for _, hold := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprint(tt.name, "/", hold), func(t *testing.T) {
				var seen guardtest.Events
				locks := memlock.New()
				g := newGuard(t, locks, middleware.WithMaxHold(hold), middleware.WithObserver(seen.Observe))
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					g.Serve(httptest.NewRecorder(), request(t, http.MethodPost, "/"), tt.h)
				}()
				<-done
				requireFree(t, locks)
				guardtest.Await[lock.Released](t, &seen)
			})
		}
	}
}

// The recovery further out gets the panic as it was: its value, and the stack
// down to the line that panicked.
func TestPanicGoesOnUnchanged(t *testing.T) {
	locks := memlock.New()
	h := httplock.Wrap(newGuard(t, locks))(http.HandlerFunc(panicsHere))
	var value any
	var stack string
	func() {
		defer func() { value, stack = recover(), string(debug.Stack()) }()
		h.ServeHTTP(httptest.NewRecorder(), request(t, http.MethodPost, "/"))
	}()
	assert.Same(t, errBroken, value)
	assert.Contains(t, stack, "panicsHere")
	requireFree(t, locks)
}

var errBroken = &struct{ text string }{"broken"}

func panicsHere(http.ResponseWriter, *http.Request) { panic(errBroken) }

// The client hangs up while its handler holds the key.
func TestL1_ClientHangsUp(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			var seen guardtest.Events
			locks := memlock.New()
			started := make(chan struct{})
			g := newGuard(t, locks, middleware.WithTTL(time.Hour), middleware.WithObserver(seen.Observe))
			srv := guarded(t, p, g, func(w http.ResponseWriter, r *http.Request) {
				close(started)
				<-r.Context().Done()
				for range 100 { // a client that has gone is written to
					fmt.Fprint(w, "too late")
					_ = http.NewResponseController(w).Flush()
				}
			})
			ctx, hangUp := context.WithCancel(t.Context())
			go func() { <-started; hangUp() }()
			_, err := srv.Client().Do(request(t, http.MethodPost, srv.URL).WithContext(ctx))
			require.ErrorIs(t, err, context.Canceled)
			guardtest.Await[lock.Released](t, &seen)
			requireFree(t, locks)
			for _, e := range seen.All() {
				assert.IsNotType(t, lock.Denied{}, e)
			}
		})
	}
}

// A connection that is taken over, as a websocket's, works on, also after the
// lease was lost and the handler has returned.
func TestHijack(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    protocol
		lost bool
	}{
		{"held", http1, false},
		{"lost", http1, true},
		{"lost, through another writer", protocol{other: true}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var seen guardtest.Events
			locks := guardtest.NewLosable()
			g := newGuard(t, locks, middleware.WithObserver(seen.Observe))
			served := make(chan struct{})
			srv := guarded(t, tt.p, g, func(w http.ResponseWriter, r *http.Request) {
				conn, rw, err := http.NewResponseController(w).Hijack()
				if !assert.NoError(t, err) {
					return
				}
				if tt.lost {
					guardtest.Lose(r.Context(), lock.ErrStolen)
				}
				go func() {
					defer close(served)
					defer conn.Close()
					guardtest.Await[lock.Released](t, &seen)
					fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
					_ = rw.Flush()
					line, err := rw.ReadString('\n')
					assert.NoError(t, err)
					fmt.Fprint(rw, line)
					assert.NoError(t, rw.Flush())
				}()
			})
			conn, err := net.Dial("tcp", srv.Listener.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-User-ID: u1\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			br := bufio.NewReader(conn)
			resp, err := http.ReadResponse(br, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
			fmt.Fprint(conn, "hello\n")
			echo, err := io.ReadAll(br)
			require.NoError(t, err)
			assert.Equal(t, "hello\n", string(echo))
			<-served
			requireFree(t, locks)
			assert.Len(t, seen.All(), 2)
		})
	}
}

// A Locker is asked to release with the values of the request, but not with
// its end.
func TestReleaseIsDetached(t *testing.T) {
	type outer struct{}
	ctx, hangUp := context.WithCancel(context.WithValue(t.Context(), outer{}, "kept"))
	locks := &stub{}
	newGuard(t, locks).Serve(httptest.NewRecorder(), request(t, http.MethodPost, "/").WithContext(ctx), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		hangUp()
	}))
	require.NotNil(t, locks.released)
	assert.NoError(t, locks.released.Err())
	assert.Equal(t, "kept", locks.released.Value(outer{}))
}
