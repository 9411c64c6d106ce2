package redislock_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/proctest"
	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
)

// A pod is a process of its own: see internal/testpod.
type pod struct {
	*proctest.Process
	url string
}

func startPod(t *testing.T, server *redistest.Server, ttl time.Duration) *pod {
	t.Helper()
	bin := proctest.Build(t, "github.com/reqlock/reqlock/internal/testpod")
	p := &pod{Process: proctest.Start(t, exec.Command(bin, "-redis", server.Addr(), "-ttl", ttl.String()))}
	p.listening()
	return p
}

// listening waits until the pod, or the one that was started in its place,
// serves.
func (p *pod) listening() {
	_, addr, _ := strings.Cut(p.WaitFor("listening "), " ")
	p.url = "http://" + addr
}

// post asks for work on key in the background.
func (p *pod) post(ctx context.Context, key string, work time.Duration) <-chan answer {
	answers := make(chan answer, 1)
	go func() { answers <- post(ctx, fmt.Sprintf("%s/%s?work=%s", p.url, key, work)) }()
	return answers
}

// cpu returns the CPU time that the pod has used.
func (p *pod) cpu(t *testing.T) time.Duration {
	t.Helper()
	resp, err := http.Get(p.url + "/cpu")
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	used, err := time.ParseDuration(string(body))
	require.NoError(t, err)
	return used
}

// fields reads a line such as "start fence=12 store=accepted".
func fields(t *testing.T, line string) (fence uint64, store string) {
	t.Helper()
	_, rest, _ := strings.Cut(line, "fence=")
	_, err := fmt.Sscanf(rest, "%d store=%s", &fence, &store)
	require.NoError(t, err, line)
	return fence, store
}

// at reads when the context of a handler ended, from its line.
func at(t *testing.T, line string) time.Time {
	t.Helper()
	_, rest, _ := strings.Cut(line, "at=")
	nanos, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	require.NoError(t, err, line)
	return time.Unix(0, nanos)
}

// A holder that was stopped for longer than its lease lasts learns of it as it
// wakes, and harms nobody.
func TestHolderStoppedPastItsLease(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	server := redistest.Start(t)
	stopped, other := startPod(t, server, ttl), startPod(t, server, ttl)

	first := stopped.post(t.Context(), "key", time.Hour)
	oldFence, store := fields(t, stopped.WaitFor("start "))
	require.Equal(t, "accepted", store)
	stopped.Pause()
	start := time.Now()
	second := other.post(t.Context(), "key", 3*ttl)
	newFence, store := fields(t, other.WaitFor("start "))
	assert.Less(t, time.Since(start), ttl+time.Second, "a stopped holder costs its TTL")
	require.Equal(t, "accepted", store)
	require.Greater(t, newFence, oldFence)

	resumed := time.Now()
	stopped.Resume()
	line := stopped.WaitFor("cut ")
	fence, store := fields(t, line)
	require.Equal(t, oldFence, fence)
	require.Equal(t, "refused", store)
	require.Contains(t, line, lock.ErrExpired.Error())
	require.Less(t, at(t, line).Sub(resumed), 100*time.Millisecond)
	require.Contains(t, stopped.WaitFor("released "), lock.ErrExpired.Error())
	require.NotEmpty(t, server.Keys("*:lock"), "its release came while the other holds")
	a := <-first
	require.NoError(t, a.err)
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Contains(t, a.body, `"lost"`)

	// And the other goes on undisturbed.
	fence, store = fields(t, other.WaitFor("end "))
	require.Equal(t, newFence, fence)
	require.Equal(t, "accepted", store)
	require.Contains(t, other.WaitFor("released "), "err=<nil>")
	require.Equal(t, http.StatusOK, (<-second).status)
	require.Empty(t, server.Keys("*:lock"))
}

// One that was stopped for less keeps its lease.
func TestHolderStoppedWithinItsLease(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	server := redistest.Start(t)
	p := startPod(t, server, ttl)
	answered := p.post(t.Context(), "key", 2*ttl)
	p.WaitFor("start ")
	p.Pause()
	require.Eventually(t, func() bool {
		return server.Client().PTTL(t.Context(), lockKey("key")).Val() < ttl/2
	}, patience, time.Millisecond)
	p.Resume()
	_, store := fields(t, p.WaitFor("end "))
	require.Equal(t, "accepted", store)
	require.Equal(t, http.StatusOK, (<-answered).status)
}

// A holder that is killed costs its key the rest of the TTL, in whatever
// process somebody waits.
func TestHolderKilled(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	server := redistest.Start(t)
	killed, other := startPod(t, server, ttl), startPod(t, server, ttl)
	var last uint64
	for range 3 {
		killed.post(t.Context(), "key", time.Hour)
		fence, _ := fields(t, killed.WaitFor("start "))
		require.Greater(t, fence, last)
		killed.Kill()
		start := time.Now()
		a := <-other.post(t.Context(), "key", 0)
		require.Equal(t, http.StatusOK, a.status, a.body)
		assert.Less(t, time.Since(start), ttl+time.Second)
		_, err := fmt.Sscanf(a.body, "fence=%d", &last)
		require.NoError(t, err)
		require.Greater(t, last, fence)
		killed.Restart()
		killed.listening()
	}
}
