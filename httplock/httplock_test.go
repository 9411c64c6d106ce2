package httplock_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPanicsOnMisuse(t *testing.T) {
	user := keyfuncs.Header("X-User-ID")
	wrap := httplock.New(memlock.New(), user)
	tests := []struct {
		name string
		f    func()
		want []string
	}{
		{"New lists every problem", func() { httplock.New(nil, nil, middleware.WithWait(-time.Second)) }, []string{"the lock.Locker is nil", "the key function is nil", "WithWait"}},
		{"nil Guard", func() { httplock.Wrap(nil) }, []string{"the Guard is nil"}},
		{"nil handler", func() { wrap(nil) }, []string{"the handler to wrap is nil"}},
		{"nil HandlerFunc", func() { wrap(http.HandlerFunc(nil)) }, []string{"the handler to wrap is nil"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				text := ""
				switch v := recover().(type) {
				case error:
					text = v.Error()
				case string:
					text = v
				}
				assert.True(t, strings.HasPrefix(text, "httplock: "), text)
				for _, want := range tt.want {
					assert.Contains(t, text, want)
				}
			}()
			tt.f()
		})
	}
}

// Requests through a ServeMux, as a service would have it.
func TestBehindServeMux(t *testing.T) {
	locks := memlock.New()
	calls := 0
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		lease, _ := lock.From(r.Context())
		_, _ = io.WriteString(w, lease.Key())
	})
	mux := http.NewServeMux()
	mux.Handle("POST /sessions/{session}", httplock.New(locks, keyfuncs.Join(keyfuncs.Header("X-User-ID"), keyfuncs.PathValue("session")))(handler))
	mux.Handle("POST /json", httplock.New(locks, keyfuncs.JSON("user"))(handler))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	srv := httptest.NewServer(mux)
	defer srv.Close()

	large := `{"user":"u1","text":"` + strings.Repeat("x", 2<<20) + `"}`
	tests := []struct {
		name   string
		method string
		path   string
		user   string
		body   string
		status int
		want   string
	}{
		{"served", http.MethodPost, "/sessions/s1", "u1", "", 200, "u1:s1"},
		{"missing header", http.MethodPost, "/sessions/s1", "", "", 400, `header \"X-User-ID\": missing`},
		{"JSON", http.MethodPost, "/json", "", `{"user":"u1"}`, 200, "u1"},
		{"invalid JSON", http.MethodPost, "/json", "", `{"user":`, 400, "malformed"},
		{"duplicate JSON key", http.MethodPost, "/json", "", `{"user":"u1","user":"u2"}`, 400, "malformed"},
		{"2 MiB body", http.MethodPost, "/json", "", large, 413, "body_too_large"},
		{"outside of the guard", http.MethodGet, "/healthz", "", "", 200, "ok"},
		{"no route", http.MethodGet, "/nowhere", "", "", 404, "404"},
		{"other method", http.MethodGet, "/json", "", "", 405, "Method"},
	}
	served := 0
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), tt.method, srv.URL+tt.path, strings.NewReader(tt.body))
			require.NoError(t, err)
			if tt.user != "" {
				r.Header.Set("X-User-ID", tt.user)
			}
			resp, err := srv.Client().Do(r)
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, tt.status, resp.StatusCode)
			assert.Contains(t, string(body), tt.want)
			if tt.status == http.StatusBadRequest || tt.status == http.StatusRequestEntityTooLarge {
				assert.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
			}
		})
		if tt.status == http.StatusOK && tt.method == http.MethodPost {
			served++
		}
	}
	assert.Equal(t, served, calls)
}
