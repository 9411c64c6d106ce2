package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// A client that posts, and goes while it waits, is noticed: its turn is not
// spent on nobody, though nobody has read its body yet.
func TestQueuedClientWithABodyLeaves(t *testing.T) {
	seen := new(guardtest.Events)
	locks := memlock.New()
	ran := make(chan string, 10)
	srv := guarded(t, protocol{}, newGuard(t, locks, middleware.WithWait(time.Minute), middleware.WithObserver(seen.Observe)),
		func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			ran <- string(body)
		})
	held, err := locks.Acquire(t.Context(), "u1", lock.Options{})
	require.NoError(t, err)
	for range 5 {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		require.NoError(t, err)
		_, err = fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-User-ID: u1\r\nContent-Length: 4\r\n\r\ngone")
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	require.Eventually(t, func() bool { return len(guardtest.Of[lock.Abandoned](seen)) == 5 }, 10*time.Second, time.Millisecond)
	require.NoError(t, held.Release(t.Context()))

	r := request(t, http.MethodPost, srv.URL)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("here")), 4
	resp, err := srv.Client().Do(r)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, "here", <-ran)
	require.Empty(t, ran)
}

// Whatever its size and however it is sent, the handler reads the body as it
// is.
func TestBodyIsWhole(t *testing.T) {
	for _, p := range []protocol{{name: "HTTP1"}, {name: "HTTP2", http2: true}} {
		srv := guarded(t, p, newGuard(t, memlock.New()), func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			_, err = r.Body.Read(make([]byte, 1))
			assert.Equal(t, io.EOF, err)
			assert.NoError(t, r.Body.Close())
			_, _ = w.Write(body)
		})
		for _, size := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20} {
			for _, chunked := range []bool{false, true} {
				for _, expect := range []string{"", "100-continue"} {
					sent := strings.Repeat("x", size)
					r := request(t, http.MethodPost, srv.URL)
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader(sent)), int64(size)
					if chunked {
						r.ContentLength = -1
					}
					if expect != "" {
						r.Header.Set("Expect", expect)
					}
					resp, err := srv.Client().Do(r)
					require.NoError(t, err)
					got, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					require.NoError(t, err)
					require.Equal(t, http.StatusOK, resp.StatusCode)
					require.True(t, sent == string(got), "%d bytes, chunked %v, %q", size, chunked, expect)
				}
			}
		}
	}
}

// A client that goes in the middle of its body, while it waits, has left.
func TestClientLeavesInTheMiddleOfItsBody(t *testing.T) {
	seen := new(guardtest.Events)
	locks := memlock.New()
	held, err := locks.Acquire(t.Context(), "u1", lock.Options{})
	require.NoError(t, err)
	srv := guarded(t, protocol{}, newGuard(t, locks, middleware.WithWait(time.Minute), middleware.WithObserver(seen.Observe)), func(http.ResponseWriter, *http.Request) {
		t.Error("served for nobody")
	})
	sendHalf(t, srv)
	guardtest.Await[lock.Abandoned](t, seen)
	require.NoError(t, held.Release(t.Context()))
}

// Where a middleware keeps that from the guard, the handler is told that the
// body is not whole, as it would be without a guard.
func TestBodyThatBreaksOffIsNotWhole(t *testing.T) {
	locks := memlock.New()
	held, err := locks.Acquire(t.Context(), "u1", lock.Options{})
	require.NoError(t, err)
	read := make(chan error, 1)
	guard := wrap(newGuard(t, locks, middleware.WithWait(time.Minute)), func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.Equal(t, "half", string(body))
		read <- err
	})
	srv := serve(t, http1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guard.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
	}))
	sendHalf(t, srv)
	awaitWaiting(t, locks)
	require.NoError(t, held.Release(t.Context()))
	require.ErrorIs(t, <-read, io.ErrUnexpectedEOF)
}

func sendHalf(t *testing.T, srv *httptest.Server) {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	_, err = fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-User-ID: u1\r\nContent-Length: 8\r\n\r\nhalf")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

// awaitWaiting returns once somebody waits for the key of user u1.
func awaitWaiting(t *testing.T, locks lock.Locker) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := locks.Acquire(t.Context(), "u1", lock.Options{Wait: time.Millisecond, MaxQueue: 1})
		return errors.Is(err, lock.ErrQueueFull)
	}, 10*time.Second, time.Millisecond)
}

// Who is turned away after a wait still has its body, for a DenyFunc that keeps
// the request for later.
func TestDenyFuncReadsTheBody(t *testing.T) {
	locks := memlock.New()
	held, err := locks.Acquire(t.Context(), "u1", lock.Options{})
	require.NoError(t, err)
	defer held.Release(t.Context())
	for _, wait := range []time.Duration{0, 10 * time.Millisecond} {
		g := newGuard(t, locks, middleware.WithWait(wait), middleware.WithDeny(func(w http.ResponseWriter, r *http.Request, d middleware.Denial) {
			body, _ := io.ReadAll(r.Body)
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write(body)
		}))
		srv := guarded(t, http1, g, nothing)
		r := request(t, http.MethodPost, srv.URL)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader("later")), 5
		resp, err := srv.Client().Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, resp.StatusCode)
		require.Equal(t, "later", string(body))
	}
}
