package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware"
)

// While Redis is away this server takes turns by itself, and nobody notices
// when it is back: never are two messages of a session answered at a time.
func TestFallbackLocal(t *testing.T) {
	t.Parallel() // it waits, mostly
	srv := redistest.Start(t)
	model, upstream := startWatchedModel(t, 2*time.Millisecond)
	p := startPod(t, "-redis", srv.Addr(), "-upstream", upstream, "-wait", "15s", "-fallback", "local")
	crowd := func(when string) {
		t.Helper()
		begun := model.begun()
		calls := make([]*call, 10)
		for i := range calls {
			calls[i] = &call{user: "alice", session: "s", prompt: fmt.Sprintf("message %d %s", i, when), stream: i%2 == 0}
		}
		sendAll(t, []*pod{p}, calls)
		for _, c := range calls {
			assert.Equal(t, http.StatusOK, c.status, c)
			assert.True(t, c.done && c.quotes(), c)
		}
		assert.Equal(t, len(calls), model.begun()-begun)
		assert.Equal(t, 1, model.mostOfAny, "the model answered that many at a time %s", when)
	}
	crowd("before")
	srv.Kill()
	crowd("meanwhile")
	p.WaitFor("backend unavailable")
	p.WaitFor("requests run with the fallback")
	srv.Restart()
	crowd("when it is back")
	client := newClient(t)
	require.Eventually(t, func() bool { // what ends the fallback is a message that did without
		c := (&call{user: "bob"}).send(t, client, p.url)
		return assert.Equal(t, http.StatusOK, c.status, c) && strings.Contains(p.Output(), "requests do without the fallback again")
	}, 20*time.Second, 100*time.Millisecond)
	p.WaitFor("backend available again")
	crowd("after")
}

// A server with a fallback starts without Redis, and uses it once it is there.
func TestFallbackFromTheStart(t *testing.T) {
	srv := redistest.Start(t)
	srv.Kill()
	p := startPod(t, "-redis", srv.Addr(), "-model-delay", "0", "-fallback", "local")
	p.WaitFor("cannot use Redis yet")
	client := newClient(t)
	send := func() { assert.Equal(t, http.StatusOK, (&call{user: "alice"}).send(t, client, p.url).status) }
	send()
	p.WaitFor("requests run with the fallback")
	srv.Restart()
	require.Eventually(t, func() bool { send(); return len(srv.Keys("reqlock:*")) > 0 }, 20*time.Second, 100*time.Millisecond)
}

// While Redis is away nobody waits for anybody.
func TestFallbackOpen(t *testing.T) {
	srv := redistest.Start(t)
	p := startPod(t, "-redis", srv.Addr(), "-model-delay", "1h", "-wait", "0", "-fallback", "open")
	srv.Kill()
	client := newClient(t)
	for _, prompt := range []string{"one", "two", "three"} { // of one session, all still being answered
		start := time.Now()
		resp, err := client.Do((&call{user: "alice", session: "s", prompt: prompt, stream: true}).request(t, p.url))
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Equal(t, "leader", resp.Header.Get(middleware.RoleHeader))
		assert.Less(t, time.Since(start), time.Second+200*time.Millisecond)
	}
	p.WaitFor("backend unavailable")
	p.WaitFor("requests run with the fallback")
}
