package redislock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
)

// A backend is a server and the line to it.
type backend struct {
	*redistest.Server
	line *redistest.Proxy
}

func startBackend(t testing.TB, config ...string) backend {
	server := redistest.Start(t, config...)
	return backend{server, redistest.NewProxy(t, server.Addr())}
}

// A failure begins and, unless that is nil, ends.
type failure struct {
	name        string
	begin, over func(*testing.T, backend)
}

var (
	killed    = failure{"killed", func(_ *testing.T, b backend) { b.Kill() }, func(_ *testing.T, b backend) { b.Restart() }}
	stopped   = failure{"stopped", func(_ *testing.T, b backend) { b.Pause() }, func(_ *testing.T, b backend) { b.Resume() }}
	blackHole = failure{"black hole", func(_ *testing.T, b backend) { b.line.BlackHole(true) }, func(_ *testing.T, b backend) { b.line.BlackHole(false) }}
	noReplies = failure{"replies lost", func(_ *testing.T, b backend) { b.line.DropReplies(true) }, func(_ *testing.T, b backend) { b.line.DropReplies(false) }}
	refused   = failure{"refused", func(_ *testing.T, b backend) { b.line.Refuse(true); b.line.CutAll() }, func(_ *testing.T, b backend) { b.line.Refuse(false) }}
	slow      = failure{"slow", func(_ *testing.T, b backend) { b.line.Delay(150 * time.Millisecond) }, func(_ *testing.T, b backend) { b.line.Delay(0) }}

	restarted   = failure{"restarted", func(_ *testing.T, b backend) { b.Restart() }, nil}
	cut         = failure{"connections cut", func(_ *testing.T, b backend) { b.line.CutAll() }, nil}
	outOfMemory = configured("out of memory", "maxmemory 1mb", "maxmemory 0")
	replica     = configured("made a replica", "replicaof 127.0.0.1 1", "replicaof no one")
	noScripts   = configured("scripts forbidden", "user default -@scripting", "user default +@all")

	emptied        = failure{"emptied", func(t *testing.T, b backend) { require.NoError(t, b.Client().FlushAll(t.Context()).Err()) }, nil}
	flushed        = failure{"scripts flushed", func(t *testing.T, b backend) { require.NoError(t, b.Client().ScriptFlush(t.Context()).Err()) }, nil}
	clientsKilled  = failure{"clients killed", killClients, nil}
	takenByAnother = failure{"taken by another", takeHeld, nil}
	busyScript     = failure{"busy with a script", runForever, func(t *testing.T, b backend) { require.NoError(t, b.Client().ScriptKill(t.Context()).Err()) }}
)

func configured(name, begin, over string) failure {
	return failure{
		name,
		func(t *testing.T, b backend) { configure(t, b.Client(), begin) },
		func(t *testing.T, b backend) { configure(t, b.Client(), over) },
	}
}

func killClients(t *testing.T, b backend) {
	require.NoError(t, b.Client().Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err())
}

func takeHeld(t *testing.T, b backend) {
	require.NoError(t, b.Client().Set(t.Context(), lockKey("/held"), "another", 0).Err())
}

func runForever(t *testing.T, b backend) {
	configure(t, b.Client(), "lua-time-limit 1")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_ = b.Client().Eval(ctx, "while true do end", nil).Err()
}

// While Redis fails clients are told so in time, and when it is back they are
// served; the operator reads of it once, with the reason.
func TestFailures(t *testing.T) {
	failures := []struct {
		failure
		log string // in the one line; "" where nobody is harmed
	}{
		{slow, ""},
		{flushed, ""},
		{cut, ""},
		{clientsKilled, ""},
		{restarted, ""},
		{killed, "EOF|reset|refused|broken pipe"},
		{refused, "connect: connection refused"},
		{stopped, "timeout"},
		{blackHole, "timeout"},
		{noReplies, "timeout"},
		{outOfMemory, "OOM"},
		{replica, "READONLY"},
		{busyScript, "BUSY"},
		{noScripts, "NOPERM"},
	}
	for _, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.meet(t, 40, f.log) // half of that are trips
		})
		t.Run(f.name+", trips shared", func(t *testing.T) {
			t.Parallel()
			f.meet(t, 2, f.log)
		})
	}
}

// meet has a service with a pool of that size meet the failure. log is in the one
// line that tells of it, or "".
func (f failure) meet(t *testing.T, poolSize int, log string) {
	b := startBackend(t)
	client := redis.NewClient(&redis.Options{Addr: b.line.Addr(), PoolSize: poolSize})
	t.Cleanup(func() { _ = client.Close() })
	s := serve(t, client, answerDone, middleware.WithTTL(time.Second))
	s.post("warm").assertServed(t)
	f.begin(t, b)
	var all sync.WaitGroup
	for i := range 20 { // some on one key, each of the others on its own
		all.Go(func() {
			a := s.post(fmt.Sprint(min(17, i)))
			if log == "" {
				a.assertServed(t)
			} else {
				a.assertUnavailable(t)
			}
		})
	}
	all.Wait()
	if f.over != nil {
		f.over(t, b)
	}
	if log == "" {
		require.Empty(t, s.warnings())
		require.NotContains(t, s.log.String(), "available again")
		return
	}
	s.awaitRecovery()
	s.requireOneWarning(log)
}

// A server that can't be used from the start says why in the one line.
func TestUnusableServers(t *testing.T) {
	master := redistest.Start(t)
	_, port, _ := strings.Cut(master.Addr(), ":")
	servers := []struct {
		name, config string // of the server while it runs, so that its own client is in
		options      redis.Options
		log          string
	}{
		{"password missing", "requirepass secret", redis.Options{}, "NOAUTH"},
		{"password wrong", "requirepass secret", redis.Options{Password: "guess"}, "WRONGPASS"},
		{"no scripts", "user app on nopass ~* +@all -@scripting", redis.Options{Username: "app", Password: "any"}, "NOPERM"},
		{"other keys", "user app on nopass ~shop:* +@all", redis.Options{Username: "app", Password: "any"}, "NOPERM"},
		{"no TIME", "user app on nopass ~* +@all -time", redis.Options{Username: "app", Password: "any"}, "can't run this command"},
		{"no such database", "", redis.Options{DB: 99}, "DB index is out of range"},
		{"read-only replica", "replicaof 127.0.0.1 " + port, redis.Options{}, "READONLY"},
	}
	for _, u := range servers {
		t.Run(u.name, func(t *testing.T) {
			server := redistest.Start(t)
			if u.config != "" {
				configure(t, server.Client(), u.config)
			}
			u.options.Addr = server.Addr()
			client := redis.NewClient(&u.options)
			t.Cleanup(func() { _ = client.Close() })
			s := serve(t, client, answerDone)
			for range 3 {
				s.post("key").assertUnavailable(t)
			}
			s.requireOneWarning(u.log)
		})
	}
}

// idleAfterPing counts the connections on which PING was the last command.
func idleAfterPing(t *testing.T, b backend) int {
	clients, err := b.Client().ClientList(t.Context()).Result()
	require.NoError(t, err)
	return strings.Count(clients, " cmd=ping ")
}

// A server that is out of memory renews what is held and refuses the rest: that
// is one outage, and not one that is over with every renewal.
func TestOutOfMemoryWhileHeld(t *testing.T) {
	b := startBackend(t)
	started, finish := make(chan struct{}, 1), make(chan struct{})
	s := serve(t, b.Client(), func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			started <- struct{}{}
			<-finish
		}
		answerDone(w, r)
	}, middleware.WithTTL(time.Second))
	answered := make(chan answer, 1)
	go func() { answered <- s.post("held") }()
	<-started
	outOfMemory.begin(t, b)
	for i := range 3 {
		s.post(fmt.Sprint(i)).assertUnavailable(t)
		pause(1500 * time.Millisecond) // several renewals
	}
	s.requireOneWarning("OOM")
	require.NotContains(t, s.log.String(), "available again")
	close(finish)
	(<-answered).assertServed(t)
	outOfMemory.over(t, b)
	s.awaitRecovery()
}

// A connection that comes and goes is one outage; in between requests are
// served, and nobody is told that somebody else is busy.
func TestFlappingConnection(t *testing.T) {
	b := startBackend(t)
	s := serve(t, dial(t, b.line.Addr()), answerDone)
	s.post("warm").assertServed(t)
	var served, unavailable atomic.Int32
	flapping, stop := context.WithTimeout(t.Context(), 4*time.Second)
	defer stop()
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			for flapping.Err() == nil {
				a := s.post(fmt.Sprint(i))
				switch {
				case a.status == http.StatusOK:
					served.Add(1)
				case a.assertUnavailable(t):
					unavailable.Add(1)
				}
				pause(5 * time.Millisecond)
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for away := true; flapping.Err() == nil; away = !away {
		b.line.Refuse(away)
		b.line.CutAll()
		pause(time.Duration(100+random.IntN(300)) * time.Millisecond)
	}
	b.line.Refuse(false)
	all.Wait()
	require.Positive(t, served.Load())
	require.Positive(t, unavailable.Load())
	s.awaitRecovery()
	s.requireOneWarning("")
}

// What a holder and its client see of a server that fails while the handler
// runs: the lease goes on, or the handler's context ends within its TTL and its
// client is told.
func TestFailuresWhileHeld(t *testing.T) {
	const ttl = time.Second
	failures := []struct {
		failure
		config string
		lost   error // nil: the lease goes on
	}{
		{restarted, "appendonly no", lock.ErrExpired},
		{emptied, "", lock.ErrExpired},
		{blackHole, "", lock.ErrExpired},
		{replica, "", lock.ErrExpired},
		{takenByAnother, "", lock.ErrStolen},
		{restarted, "appendonly yes", nil},
		{outOfMemory, "", nil},
		{flushed, "", nil},
		{clientsKilled, "", nil},
		{slow, "", nil},
	}
	for _, f := range failures {
		t.Run(strings.TrimSpace(f.name+" "+f.config), func(t *testing.T) {
			t.Parallel()
			b := startBackend(t, f.config)
			started, finish := make(chan lock.Lease, 1), make(chan struct{})
			s := serve(t, dial(t, b.line.Addr()), func(w http.ResponseWriter, r *http.Request) {
				lease, _ := lock.From(r.Context())
				started <- lease
				select {
				case <-finish:
					answerDone(w, r)
				case <-r.Context().Done():
				}
			}, middleware.WithTTL(ttl))
			answered := make(chan answer, 1)
			go func() { answered <- s.post("held") }()
			var lease lock.Lease
			select {
			case lease = <-started:
			case a := <-answered:
				require.Fail(t, "denied", "%+v", a)
			}
			// The connections for release and renewal, which are opened ahead, are
			// there: a second later they would not be missed.
			require.Eventually(t, func() bool { return idleAfterPing(t, b) >= 2 }, patience, time.Millisecond)
			f.begin(t, b)
			if f.lost == nil {
				select {
				case a := <-answered:
					require.Fail(t, "answered before its time", "%+v", a)
				case <-time.After(3 * ttl):
				}
				close(finish)
				(<-answered).assertServed(t)
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
			if f.over != nil {
				f.over(t, b)
			}
		})
	}
}
