package middleware_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
)

// secret stands for everything that must not reach a client.
const secret = "dial tcp 10.1.2.3:6379 key u1"

var errSecret = errors.New(secret)

// Every way to be turned away, with what the client and the operator get.
// What a handler is cut off with is in TestCutOff….
func TestDenials(t *testing.T) {
	keyError := func(err error) keyfuncs.Func { return func(*http.Request) (string, error) { return "", err } }
	busy := func(err error) lock.Locker { return &stub{err: &lock.BusyError{Err: err, Ahead: 1}} }
	free := &stub{}
	tests := []struct {
		name   string
		l      lock.Locker
		key    keyfuncs.Func
		status int
		reason middleware.Reason
		detail string
		kind   string
		code   string
		after  string
	}{
		{"missing", free, keyfuncs.Header("X-Tenant"), 400, middleware.NoKey, `header "X-Tenant": missing`, "invalid_request_error", "no_key", ""},
		{"malformed", free, keyfuncs.JSON("user"), 400, middleware.NoKey, `JSON "user": malformed: the body is not valid JSON`, "invalid_request_error", "no_key", ""},
		{"empty", free, keyError(nil), 400, middleware.NoKey, "key: missing", "invalid_request_error", "no_key", ""},
		{"too large", free, keyError(&http.MaxBytesError{Limit: 7}), 413, middleware.BodyTooLarge, "the request body is too large: the limit is 7 bytes", "invalid_request_error", "body_too_large", ""},
		{"key failed", free, keyError(errSecret), 500, middleware.KeyFailed, "the key of the request could not be determined", "server_error", "key_failed", ""},
		{"H15 busy", busy(lock.ErrBusy), user, 429, middleware.Busy, "another request with the same key is still being served", "rate_limit_exceeded", "session_busy", "1"},
		{"H15 queue full", busy(lock.ErrQueueFull), user, 429, middleware.QueueFull, "too many requests with the same key are waiting", "rate_limit_exceeded", "queue_full", "1"},
		{"H17 unavailable", &stub{err: errors.Join(lock.ErrUnavailable, errSecret)}, user, 503, middleware.Unavailable, "the lock service is unavailable", "server_error", "unavailable", "1"},
		{"H17 unknown", &stub{err: errSecret}, user, 503, middleware.Unavailable, "the lock service is unavailable", "server_error", "unavailable", "1"},
	}
	for _, tt := range tests {
		for _, deny := range []struct {
			name string
			opts []middleware.Option
			want map[string]any
		}{
			{"ProblemJSON", nil, map[string]any{"type": "about:blank", "title": http.StatusText(tt.status), "status": float64(tt.status), "detail": tt.detail, "reason": string(tt.reason)}},
			{"OpenAIErrors", []middleware.Option{middleware.WithDeny(middleware.OpenAIErrors)}, map[string]any{"error": map[string]any{"message": tt.detail, "type": tt.kind, "param": nil, "code": tt.code}}},
		} {
			t.Run(tt.name+"/"+deny.name, func(t *testing.T) {
				var seen guardtest.Events
				g, err := middleware.NewGuard(tt.l, tt.key, append(deny.opts, middleware.WithObserver(seen.Observe))...)
				require.NoError(t, err)
				srv := guarded(t, http1, g, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
				r := request(t, http.MethodPost, srv.URL)
				r.Body = io.NopCloser(strings.NewReader("{"))
				resp, err := srv.Client().Do(r)
				require.NoError(t, err)
				defer resp.Body.Close()
				text, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				var body map[string]any
				require.NoError(t, json.Unmarshal(text, &body))

				assert.Equal(t, tt.status, resp.StatusCode)
				assert.Equal(t, deny.want, body)
				assert.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
				assert.Equal(t, tt.after, resp.Header.Get("Retry-After"))
				assert.Equal(t, tt.after != "", resp.Header.Get("Retry-After-Ms") == "1000")
				assert.Empty(t, resp.Header.Get("X-Should-Retry"))
				if deny.name == "ProblemJSON" {
					assert.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
				} else {
					assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
				}
				assert.NotContains(t, string(text), "10.1.2.3")

				require.Len(t, seen.All(), 1)
				denied := seen.All()[0].(lock.Denied)
				assert.Equal(t, string(tt.reason), denied.Reason)
				assert.Error(t, denied.Err)
			})
		}
	}
}

func TestDenialToHEADHasNoBody(t *testing.T) {
	for _, deny := range []middleware.DenyFunc{middleware.ProblemJSON, middleware.OpenAIErrors} {
		for _, p := range protocols {
			g := newGuard(t, &stub{err: lock.ErrBusy}, middleware.WithDeny(deny))
			srv := guarded(t, p, g, nothing)
			resp, err := srv.Client().Do(request(t, http.MethodHead, srv.URL))
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Empty(t, body)
			assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			assert.Equal(t, "1", resp.Header.Get("Retry-After"))

			// A real server would drop a body by itself.
			w := httptest.NewRecorder()
			g.Serve(w, request(t, http.MethodHead, "/"), http.HandlerFunc(nothing))
			assert.Empty(t, w.Body.String())
		}
	}
}

// A DenyFunc that writes nothing does not make a success of a denial.
func TestDenyFuncThatWritesNothing(t *testing.T) {
	silent := middleware.WithDeny(func(http.ResponseWriter, *http.Request, middleware.Denial) {})
	for _, p := range protocols {
		srv := guarded(t, p, newGuard(t, &stub{err: lock.ErrBusy}, silent), nothing)
		resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	}
}

func TestCustomDenyFuncFindsTheHeadersSet(t *testing.T) {
	var got middleware.Denial
	deny := func(w http.ResponseWriter, _ *http.Request, d middleware.Denial) {
		got = d
		w.WriteHeader(http.StatusTeapot)
	}
	srv := guarded(t, http1, newGuard(t, &stub{err: lock.ErrBusy}, middleware.WithDeny(deny)), nothing)
	resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusTeapot, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	assert.Equal(t, "1000", resp.Header.Get("Retry-After-Ms"))
	assert.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	assert.Equal(t, middleware.Busy, got.Reason)
	assert.Equal(t, http.StatusTooManyRequests, got.Status)
	assert.ErrorIs(t, got.Err, lock.ErrBusy)
}
