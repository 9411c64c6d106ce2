package main

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
)

// watchedModel is an upstream that sees how many answers are being made at a
// time. It has no lock of its own.
type watchedModel struct {
	demoModel

	mu           sync.Mutex
	now, most    int            // of all sessions
	nowOf        map[string]int // by user and session
	mostOfAny    int
	answersBegun int
}

func startWatchedModel(t *testing.T, delay time.Duration) (m *watchedModel, url string) {
	m = &watchedModel{demoModel: demoModel{delay: delay}, nowOf: make(map[string]int)}
	return m, serveTest(t, m) + "/v1"
}

func (m *watchedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, problem := readBody(w, r)
	if problem != nil {
		writeError(w, problem)
		return
	}
	answer, problem := m.prepare(body)
	if problem != nil {
		writeError(w, problem)
		return
	}
	end := sync.OnceFunc(m.begin(r.Header.Get(userHeader) + "\n" + r.Header.Get(sessionHeader)))
	defer end()
	answer(&doneWatcher{w, end}, r)
}

func (m *watchedModel) begin(session string) (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answersBegun++
	m.now++
	m.nowOf[session]++
	m.most = max(m.most, m.now)
	m.mostOfAny = max(m.mostOfAny, m.nowOf[session])
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.now--
		m.nowOf[session]--
	}
}

func (m *watchedModel) begun() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answersBegun
}

// doneWatcher ends the run before the [DONE] goes out that the next one may
// begin after.
type doneWatcher struct {
	http.ResponseWriter
	end func()
}

func (w *doneWatcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *doneWatcher) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("[DONE]")) {
		w.end()
	}
	return w.ResponseWriter.Write(p)
}

func startPods(t *testing.T, n int, args ...string) []*pod {
	t.Helper()
	pods := make([]*pod, n)
	for i := range pods {
		pods[i] = startPod(t, args...)
	}
	return pods
}

// sendAll sends all calls at once, to the pods in turn.
func sendAll(t *testing.T, pods []*pod, calls []*call) {
	t.Helper()
	client := newClient(t)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i, c := range calls {
		all.Go(func() {
			<-start
			c.send(t, client, pods[i%len(pods)].url)
		})
	}
	close(start)
	all.Wait()
}

// The main job. Three servers share a Redis; 100 messages reach one user's
// session at once. The model never answers two at a time, each answer is the
// one to its message, and whoever is not served in time is told so.
func TestMainJob(t *testing.T) {
	srv := redistest.Start(t)
	model, upstream := startWatchedModel(t, 2*time.Millisecond)
	pods := startPods(t, 3, "-redis", srv.Addr(), "-upstream", upstream, "-wait", "2s")
	calls := make([]*call, 100)
	for i := range calls {
		calls[i] = &call{user: "alice", session: "s", prompt: fmt.Sprintf("message %d", i), stream: i%2 == 0}
	}
	sendAll(t, pods, calls)

	served := 0
	for _, c := range calls {
		switch c.status {
		case http.StatusOK:
			served++
			assert.True(t, c.done, c)
			assert.True(t, c.quotes(), c)
		case http.StatusTooManyRequests:
			requireError(t, c.body, "rate_limit_exceeded", "session_busy")
			assert.Regexp(t, `^[1-9]\d*$`, c.header.Get("Retry-After"))
		default:
			t.Errorf("neither served nor told to wait: %v", c)
		}
	}
	t.Logf("%d of %d served", served, len(calls))
	assert.Equal(t, 1, model.mostOfAny, "the model answered that many at a time")
	assert.Equal(t, served, model.answersBegun, "a message that was turned away reached the model")
	assert.Greater(t, served, 3)
	assert.Less(t, served, len(calls), "nobody had to be turned away: that is not tested")
	assert.Empty(t, srv.Keys("reqlock:*:lock"))
}

// Users, and the sessions of one user, do not wait for each other.
func TestUsersRunInParallel(t *testing.T) {
	srv := redistest.Start(t)
	model, upstream := startWatchedModel(t, 20*time.Millisecond)
	pods := startPods(t, 3, "-redis", srv.Addr(), "-upstream", upstream, "-wait", "0")
	var calls []*call
	for i := range 100 {
		calls = append(calls, &call{user: fmt.Sprintf("user%d", i), session: "s", prompt: "hello", stream: i%2 == 0})
	}
	for i := range 20 {
		calls = append(calls, &call{user: "alice", session: fmt.Sprint(i), prompt: "hello", stream: i%2 == 0})
	}
	sendAll(t, pods, calls)
	for _, c := range calls {
		assert.Equal(t, http.StatusOK, c.status, c)
		assert.True(t, c.done && c.quotes(), c)
	}
	assert.Greater(t, model.most, 20)
	assert.Empty(t, srv.Keys("reqlock:*:lock"))
}

// A pod that is killed in the middle of an answer holds its session for what
// is left of the TTL, and no longer.
func TestKilledPod(t *testing.T) {
	t.Parallel() // it waits, mostly
	srv := redistest.Start(t)
	model, upstream := startWatchedModel(t, time.Millisecond)
	slow := startPod(t, "-redis", srv.Addr(), "-model-delay", "1h")
	other := startPod(t, "-redis", srv.Addr(), "-upstream", upstream, "-wait", "1m")
	client := newClient(t)
	resp, err := client.Do((&call{user: "alice", session: "s", stream: true}).request(t, slow.url))
	require.NoError(t, err)
	defer resp.Body.Close()

	slow.Kill()
	killed := time.Now()
	c := (&call{user: "alice", session: "s", prompt: "are you there"}).send(t, client, other.url)
	assert.Equal(t, http.StatusOK, c.status, c)
	assert.True(t, c.quotes(), c)
	assert.Equal(t, 1, model.begun())
	const ttl = 10 * time.Second
	assert.Less(t, time.Since(killed), ttl+time.Second)
	assert.Empty(t, srv.Keys("reqlock:*:lock"))
}

// H17: Redis going away is told as that, soon, and not as a busy session. Once
// it is back, so is the service.
func TestRedisGoesAway(t *testing.T) {
	srv := redistest.Start(t)
	p := startPod(t, "-redis", srv.Addr(), "-model-delay", "0")
	client := newClient(t)
	require.Equal(t, http.StatusOK, (&call{user: "alice"}).send(t, client, p.url).status)
	require.Equal(t, `{"redis":"ok","seconds":0,"fallback":"none"}`, p.get(t, statusPath))

	srv.Kill()
	for range 3 {
		start := time.Now()
		c := (&call{user: "alice"}).send(t, client, p.url)
		assert.Less(t, time.Since(start), time.Second)
		assert.Equal(t, http.StatusServiceUnavailable, c.status)
		requireError(t, c.body, "server_error", "unavailable")
		assert.Regexp(t, `^[1-9]\d*$`, c.header.Get("Retry-After"))
		assert.NotContains(t, c.body, srv.Addr())
	}
	p.WaitFor("backend unavailable")
	assert.Regexp(t, `^{"redis":"away","seconds":\d+,"fallback":"none"}$`, p.get(t, statusPath))

	// It may have forgotten a holder: no free key is given out for one TTL, 10 s.
	srv.Restart()
	require.Eventually(t, func() bool {
		return (&call{user: "alice"}).send(t, client, p.url).status == http.StatusOK
	}, 20*time.Second, 100*time.Millisecond)
	p.WaitFor("backend available again")
	require.Eventually(t, func() bool {
		return p.get(t, statusPath) == `{"redis":"ok","seconds":0,"fallback":"none"}`
	}, 5*time.Second, 100*time.Millisecond)
	assert.NotContains(t, p.Output(), statusPath, "the log is not for that")
}
