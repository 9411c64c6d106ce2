package redislock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
)

// A backend is a server with a bad line to it.
type backend struct {
	*redistest.Server
	line *redistest.Proxy
}

func startBackend(t testing.TB, config ...string) backend {
	server := redistest.Start(t, config...)
	return backend{server, redistest.NewProxy(t, server.Addr())}
}

// While Redis fails clients are told so in time, and when it is back they are
// served; the operator reads of it once, with the reason.
func TestFailures(t *testing.T) {
	failures := []struct {
		name        string
		log         string // in the one line, "" where none is due: nobody is harmed
		begin, over func(*testing.T, backend)
	}{
		{"slow", "", func(_ *testing.T, b backend) { b.line.Delay(150 * time.Millisecond) }, func(_ *testing.T, b backend) { b.line.Delay(0) }},
		{"scripts flushed", "", func(t *testing.T, b backend) { require.NoError(t, b.Client().ScriptFlush(t.Context()).Err()) }, nil},
		{"connections cut", "", func(_ *testing.T, b backend) { b.line.CutAll() }, nil},
		{"clients killed", "", func(t *testing.T, b backend) { killClients(t, b) }, nil},
		{"restarted empty", "", func(_ *testing.T, b backend) { b.Restart() }, nil},
		{"killed", "redis at 127.0.0.1:", func(_ *testing.T, b backend) { b.Kill() }, func(_ *testing.T, b backend) { b.Restart() }},
		{"refused", "connect: connection refused", func(_ *testing.T, b backend) { b.line.Refuse(true); b.line.CutAll() }, func(_ *testing.T, b backend) { b.line.Refuse(false) }},
		{"stopped", "timeout", func(_ *testing.T, b backend) { b.Pause() }, func(_ *testing.T, b backend) { b.Resume() }},
		{"black hole", "timeout", func(_ *testing.T, b backend) { b.line.BlackHole(true) }, func(_ *testing.T, b backend) { b.line.BlackHole(false) }},
		{"out of memory", "OOM", func(t *testing.T, b backend) { configure(t, b.Client(), "maxmemory 1mb") }, func(t *testing.T, b backend) { configure(t, b.Client(), "maxmemory 0") }},
		{"made a replica", "READONLY", func(t *testing.T, b backend) {
			require.NoError(t, b.Client().SlaveOf(t.Context(), "127.0.0.1", "1").Err())
		}, func(t *testing.T, b backend) { require.NoError(t, b.Client().SlaveOf(t.Context(), "NO", "ONE").Err()) }},
		{"busy with a script", "BUSY", func(t *testing.T, b backend) {
			configure(t, b.Client(), "busy-reply-threshold 1")
			endless, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_ = b.Client().Eval(endless, "while true do end", nil).Err()
		}, func(t *testing.T, b backend) { require.NoError(t, b.Client().ScriptKill(t.Context()).Err()) }},
		{"scripts forbidden", "NOPERM", func(t *testing.T, b backend) { configure(t, b.Client(), "user default -@scripting") }, func(t *testing.T, b backend) { configure(t, b.Client(), "user default +@all") }},
	}
	for _, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			b := startBackend(t)
			s := serve(t, dial(t, b.line.Addr()), ok, middleware.WithTTL(time.Second))
			s.post("warm").served(t)
			f.begin(t, b)
			var all sync.WaitGroup
			for i := range 20 { // some on one key, each of the others on its own
				all.Go(func() {
					a := s.post(fmt.Sprint(min(17, i)))
					if f.log == "" {
						a.served(t)
					} else {
						a.unavailable(t)
					}
				})
			}
			all.Wait()
			if f.over != nil {
				f.over(t, b)
			}
			s.awaitServed("after")
			if f.log == "" {
				require.Empty(t, s.log.String())
				return
			}
			require.Eventually(t, func() bool {
				s.post("after")
				return strings.Contains(s.log.String(), "available again")
			}, patience, 10*time.Millisecond)
			require.Len(t, s.warnings(), 1, s.log)
			require.Contains(t, s.warnings()[0], f.log)
			t.Log(s.log)
		})
	}
}

// A server that can't be used from the start says why in the one line.
func TestUnusableServers(t *testing.T) {
	master := redistest.Start(t)
	_, port, _ := strings.Cut(master.Addr(), ":")
	servers := []struct {
		name, config string // config of the running server, by its own client
		user         redis.Options
		log          string
	}{
		{"password missing", "requirepass secret", redis.Options{}, "NOAUTH"},
		{"password wrong", "requirepass secret", redis.Options{Password: "guess"}, "WRONGPASS"},
		{"no scripts", "user app on nopass ~* +@all -@scripting", redis.Options{Username: "app", Password: "any"}, "NOPERM"},
		{"other keys", "user app on nopass ~shop:* +@all", redis.Options{Username: "app", Password: "any"}, "NOPERM"},
		{"commands in scripts", "user app on nopass ~* +@all -time", redis.Options{Username: "app", Password: "any"}, "can't run this command"},
		{"no such database", "maxclients 1000", redis.Options{DB: 99}, "DB index is out of range"},
		{"read-only replica", "replicaof 127.0.0.1 " + port, redis.Options{}, "READONLY"},
	}
	for _, u := range servers {
		t.Run(u.name, func(t *testing.T) {
			server := redistest.Start(t)
			configure(t, server.Client(), u.config)
			u.user.Addr = server.Addr()
			client := redis.NewClient(&u.user)
			t.Cleanup(func() { _ = client.Close() })
			s := serve(t, client, ok)
			for range 3 {
				s.post("key").unavailable(t)
			}
			require.Len(t, s.warnings(), 1, s.log)
			require.Contains(t, s.warnings()[0], u.log)
			t.Log(s.log)
		})
	}
}

// A connection that comes and goes is one outage; in between requests are
// served, and nobody is told that somebody else is busy.
func TestFlappingConnection(t *testing.T) {
	b := startBackend(t)
	s := serve(t, dial(t, b.line.Addr()), ok)
	s.post("warm").served(t)
	var statuses sync.Map
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Second)
	defer stop()
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			for ctx.Err() == nil {
				a := s.post(fmt.Sprint(i))
				assert.NoError(t, a.err)
				assert.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, a.status, a.body)
				assert.Less(t, a.took, time.Second)
				statuses.Store(a.status, true)
				pause := time.NewTimer(5 * time.Millisecond)
				<-pause.C
			}
		})
	}
	for away := true; ctx.Err() == nil; away = !away {
		b.line.Refuse(away)
		b.line.CutAll()
		pause := time.NewTimer(time.Duration(100+rand.IntN(300)) * time.Millisecond)
		<-pause.C
	}
	b.line.Refuse(false)
	all.Wait()
	for _, status := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		_, seen := statuses.Load(status)
		assert.True(t, seen, "status %d", status)
	}
	require.Eventually(t, func() bool {
		s.post("after")
		return strings.Contains(s.log.String(), "available again")
	}, patience, 10*time.Millisecond)
	require.Len(t, s.warnings(), 1, s.log)
}

// What a holder and its client see of a server that fails while the handler
// runs: the lease goes on, or the handler is stopped before somebody else can
// start and its client is told.
func TestFailuresWhileHeld(t *testing.T) {
	const ttl = time.Second
	failures := []struct {
		name  string
		begin func(*testing.T, backend)
		lost  error // nil: the lease goes on
	}{
		{"restarted empty", func(_ *testing.T, b backend) { b.Restart() }, lock.ErrExpired},
		{"emptied", func(t *testing.T, b backend) { require.NoError(t, b.Client().FlushAll(t.Context()).Err()) }, lock.ErrExpired},
		{"black hole", func(_ *testing.T, b backend) { b.line.BlackHole(true) }, lock.ErrExpired},
		{"made a replica", func(t *testing.T, b backend) {
			require.NoError(t, b.Client().SlaveOf(t.Context(), "127.0.0.1", "1").Err())
		}, lock.ErrExpired},
		{"taken by another", func(t *testing.T, b backend) {
			require.NoError(t, b.Client().Set(t.Context(), lockKey("/held"), "another", 0).Err())
		}, lock.ErrStolen},
		{"restarted with its data", func(_ *testing.T, b backend) { b.Restart() }, nil},
		{"out of memory", func(t *testing.T, b backend) { configure(t, b.Client(), "maxmemory 1mb") }, nil},
		{"scripts flushed", func(t *testing.T, b backend) { require.NoError(t, b.Client().ScriptFlush(t.Context()).Err()) }, nil},
		{"clients killed", func(t *testing.T, b backend) { killClients(t, b) }, nil},
		{"slow", func(_ *testing.T, b backend) { b.line.Delay(150 * time.Millisecond) }, nil},
	}
	for _, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			var config []string
			if f.name == "restarted with its data" {
				config = append(config, "appendonly yes")
			}
			b := startBackend(t, config...)
			started, finish := make(chan lock.Lease, 1), make(chan struct{})
			s := serve(t, dial(t, b.line.Addr()), func(w http.ResponseWriter, r *http.Request) {
				lease, _ := lock.From(r.Context())
				started <- lease
				select {
				case <-finish:
					ok(w, r)
				case <-r.Context().Done():
				}
			}, middleware.WithTTL(ttl))
			answered := make(chan answer, 1)
			go func() { answered <- s.post("held") }()
			lease := <-started
			f.begin(t, b)
			if f.lost == nil {
				select {
				case a := <-answered:
					require.Fail(t, "answered before its time", "%+v", a)
				case <-time.After(3 * ttl):
				}
				close(finish)
				a := <-answered
				require.NoError(t, a.err)
				require.Equal(t, http.StatusOK, a.status, a.body)
				require.Empty(t, s.log.String())
				require.Eventually(t, func() bool { return len(b.Keys("*:lock")) == 0 }, patience, time.Millisecond)
				return
			}
			start := time.Now()
			a := <-answered
			require.Less(t, time.Since(start), ttl+time.Second)
			require.ErrorIs(t, context.Cause(lease.Context()), f.lost)
			require.NoError(t, a.err)
			require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
			require.Contains(t, a.body, `"lost"`)
			s.awaitLog("reqlock: lease lost")
			require.Equal(t, 1, strings.Count(s.log.String(), "reqlock: lease lost"), s.log)
			t.Log(s.log)
			b.line.BlackHole(false)
		})
	}
}

func killClients(t *testing.T, b backend) {
	t.Helper()
	require.NoError(t, b.Client().Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err())
}
