package middleware_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// A client that is turned away and comes back when it is told to is served,
// and is not told to wait for very much longer than that.
func TestH13_H14_H15_RetryAfterIsWhenTheKeyIsFree(t *testing.T) {
	for _, hold := range []time.Duration{time.Millisecond, 300 * time.Millisecond, 1100 * time.Millisecond, 4 * time.Second, 30 * time.Second} {
		t.Run(hold.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuard(t, memlock.New(), middleware.WithWait(0))
				send := func() *httptest.ResponseRecorder {
					w := httptest.NewRecorder()
					g.Serve(w, request(t, http.MethodPost, "/"), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(hold) }))
					return w
				}
				for range 30 {
					require.Equal(t, http.StatusOK, send().Code)
				}
				go send()
				synctest.Wait()
				denied := send()
				require.Equal(t, http.StatusTooManyRequests, denied.Code)

				seconds, err := strconv.Atoi(denied.Header().Get("Retry-After"))
				require.NoError(t, err)
				assert.GreaterOrEqual(t, seconds, 1)
				assert.LessOrEqual(t, seconds, int(hold/time.Second)+2)
				millis, err := strconv.Atoi(denied.Header().Get("Retry-After-Ms"))
				require.NoError(t, err)
				assert.LessOrEqual(t, millis, seconds*1000)
				time.Sleep(time.Duration(millis) * time.Millisecond)
				assert.Equal(t, http.StatusOK, send().Code)
			})
		})
	}
}

func TestRetryAfter(t *testing.T) {
	tests := []struct {
		name  string
		holds []time.Duration
		err   error
		want  string
	}{
		{"nothing known", nil, &lock.BusyError{Err: lock.ErrBusy, Ahead: 9}, "1"},
		{"first hold: mean and half of it as deviation", []time.Duration{4 * time.Second}, &lock.BusyError{Err: lock.ErrBusy, Ahead: 1}, "12"},
		{"an eighth of what is new, a quarter of its deviation", []time.Duration{8 * time.Second, 16 * time.Second}, lock.ErrBusy, "29"},
		{"each one ahead counts", []time.Duration{time.Second}, &lock.BusyError{Err: lock.ErrQueueFull, Ahead: 4}, "12"},
		{"without a BusyError one is ahead", []time.Duration{time.Second}, lock.ErrBusy, "3"},
		{"at most a minute", []time.Duration{time.Hour}, lock.ErrBusy, "60"},
		{"however many are ahead", []time.Duration{time.Second}, &lock.BusyError{Err: lock.ErrBusy, Ahead: 1 << 62}, "60"},
		{"an outage is not contention", []time.Duration{time.Minute}, lock.ErrUnavailable, "1"},
		{"rounded up", []time.Duration{700 * time.Millisecond}, lock.ErrBusy, "3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locks := &stub{}
				g := newGuard(t, locks)
				for _, hold := range tt.holds {
					g.Serve(httptest.NewRecorder(), request(t, http.MethodPost, "/"), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(hold) }))
				}
				locks.err = fmt.Errorf("stub: %w", tt.err)
				w := httptest.NewRecorder()
				g.Serve(w, request(t, http.MethodPost, "/"), http.HandlerFunc(nothing))
				assert.Equal(t, tt.want, w.Header().Get("Retry-After"))
			})
		})
	}
}

// Where nothing is known of the holder, what was waited for it is.
func TestRetryAfterIsAtLeastTheWait(t *testing.T) {
	locks := memlock.New()
	held, err := locks.Acquire(t.Context(), "u1", lock.Options{})
	require.NoError(t, err)
	srv := guarded(t, http1, newGuard(t, locks, middleware.WithWait(1100*time.Millisecond)), nothing)
	resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Equal(t, "2", resp.Header.Get("Retry-After"))
	require.NoError(t, held.Release(t.Context()))
}
