package redislock_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// A service is a guarded handler on an HTTP server, as users have it, and its
// log. The key is the path.
type service struct {
	t     testing.TB
	locks *redislock.Locker
	url   string
	log   *lines
}

func serve(t testing.TB, client *redis.Client, handler http.HandlerFunc, opts ...middleware.Option) *service {
	t.Helper()
	s := &service{t: t, log: new(lines)}
	observer := lock.LogTo(slog.New(slog.NewTextHandler(s.log, nil)))
	s.locks = open(t, client, redislock.WithObserver(observer))
	guard := httplock.New(s.locks, keyfuncs.Path, append([]middleware.Option{middleware.WithObserver(observer)}, opts...)...)
	server := httptest.NewServer(guard(handler))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// An answer is what a client of a service gets, and after how long.
type answer struct {
	status     int
	body       string
	retryAfter string
	took       time.Duration
	err        error // the response broke off, or never came
}

func (s *service) post(key string) answer { return post(s.t.Context(), s.url+"/"+key) }

func post(ctx context.Context, url string) (a answer) {
	start := time.Now()
	defer func() { a.took = time.Since(start) }()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return answer{err: err}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, body: string(body), retryAfter: resp.Header.Get("Retry-After"), err: err}
}

// assertServed asserts that the handler answered.
func (a answer) assertServed(t testing.TB) bool {
	t.Helper()
	return assert.NoError(t, a.err) && assert.Equal(t, http.StatusOK, a.status, a.body) && assert.Less(t, a.took, patience)
}

// assertUnavailable asserts that the client was told of an outage, in time, and
// of nothing that is inside.
func (a answer) assertUnavailable(t testing.TB) bool {
	t.Helper()
	return assert.NoError(t, a.err) && assert.Equal(t, http.StatusServiceUnavailable, a.status, a.body) &&
		assert.Less(t, a.took, time.Second) && assert.NotEmpty(t, a.retryAfter) &&
		assert.Contains(t, a.body, `"unavailable"`) && assert.NotContains(t, a.body, "127.0.0.1") && assert.NotContains(t, a.body, "redis")
}

// warnings returns the lines of the log that an operator must act on, but for the one
// that follows a restart.
func (s *service) warnings() (found []string) {
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, "level=WARN") && !strings.Contains(line, "kept back") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// requireOneWarning checks that the operator reads of it once, and what.
func (s *service) requireOneWarning(pattern string) {
	s.t.Helper()
	require.Len(s.t, s.warnings(), 1, s.log)
	require.Contains(s.t, s.warnings()[0], "redis at 127.0.0.1:")
	require.Regexp(s.t, pattern, s.warnings()[0])
}

// awaitRecovery waits until the outage is over, for the operator as well.
func (s *service) awaitRecovery() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		return s.post("after").status == http.StatusOK && strings.Contains(s.log.String(), "available again")
	}, patience, 10*time.Millisecond)
}

// awaitLog waits for a line that contains text.
func (s *service) awaitLog(text string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return strings.Contains(s.log.String(), text) }, patience, time.Millisecond, s.log)
}

func answerDone(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }

// lines is a log that is read while it is written.
type lines struct {
	mu  sync.Mutex
	log bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.String()
}

// crowd has n callers use keys of their own at once, and requires that all are
// served.
func crowd(t *testing.T, l lock.Locker, n int) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			lease, err := l.Acquire(t.Context(), fmt.Sprint("key", i), lock.Options{Wait: patience})
			if assert.NoError(t, err) {
				assert.NoError(t, lease.Release(t.Context()))
			}
		})
	}
	all.Wait()
}

// reads counts how often the server has read from a connection.
func reads(t *testing.T, server *redistest.Server) int64 {
	t.Helper()
	stats, err := server.Client().InfoMap(t.Context(), "stats").Result()
	require.NoError(t, err)
	n, err := strconv.ParseInt(stats["Stats"]["total_reads_processed"], 10, 64)
	require.NoError(t, err)
	return n
}

// receive returns what comes.
func receive(t *testing.T, from <-chan error) error {
	t.Helper()
	select {
	case err := <-from:
		return err
	case <-time.After(patience):
		require.Fail(t, "nothing came")
		return nil
	}
}
