package redislock_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware"
)

// A restriction is what a server, or a proxy before it, refuses.
type restriction struct {
	rights  string // of the user; "": there is none
	refused string // by the proxy; "": there is none
	answer  string // of the proxy
}

const (
	unknownCommand = "-ERR unknown command '%s'"
	closes         = "close"
	silence        = ""
	everything     = "~* &* +@all "
)

func without(commands string) restriction {
	return restriction{rights: everything + "-" + strings.ReplaceAll(commands, " ", " -")}
}

// start starts the server and returns it with what opens a client of it.
func (r restriction) start(t *testing.T) (server *redistest.Server, client func() *redis.Client) {
	var o redis.Options
	if r.rights == "" {
		server = redistest.Start(t)
	} else {
		server = redistest.Start(t, "user reqlock on >secret "+r.rights)
		o.Username, o.Password = "reqlock", "secret"
	}
	o.Addr = server.Addr()
	if r.refused != "" {
		o.Addr = picky(t, o.Addr, r.answer, strings.Fields(r.refused)...)
	}
	return server, func() *redis.Client {
		options := o
		c := redis.NewClient(&options)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// A pair is two processes that want the same key, "/key". A handler runs until it
// is told to finish.
type pair struct {
	t               *testing.T
	server          *redistest.Server
	holder, waiter  *service
	started, finish chan struct{}
}

func (r restriction) pair(t *testing.T) pair {
	p := pair{t: t, started: make(chan struct{}, 2), finish: make(chan struct{}, 2)}
	handler := func(w http.ResponseWriter, r *http.Request) {
		p.started <- struct{}{}
		<-p.finish
		answerDone(w, r)
	}
	server, client := r.start(t)
	p.server = server
	p.holder = serve(t, client(), handler, middleware.WithTTL(longTTL), middleware.WithWait(patience))
	p.waiter = serve(t, client(), handler, middleware.WithTTL(longTTL), middleware.WithWait(patience))
	return p
}

// post posts in the background.
func (p pair) post(s *service) <-chan answer {
	answers := make(chan answer, 1)
	go func() { answers <- s.post("key") }()
	return answers
}

func (p pair) awaitStart(answers <-chan answer) {
	p.t.Helper()
	select {
	case <-p.started:
	case a := <-answers:
		require.Fail(p.t, "denied", "%+v", a)
	case <-time.After(patience):
		require.Fail(p.t, "not started")
	}
}

// contend has the one wait for the other, which is served when that has finished.
func (p pair) contend() {
	p.t.Helper()
	first := p.post(p.holder)
	p.awaitStart(first)
	second := p.post(p.waiter)
	require.Eventually(p.t, func() bool {
		return p.server.Client().ZCard(p.t.Context(), "reqlock:{/key}:queue").Val() == 1
	}, patience, time.Millisecond)
	p.finish <- struct{}{}
	finished := time.Now()
	p.awaitStart(second)
	assert.Less(p.t, time.Since(finished), soon)
	p.finish <- struct{}{}
	(<-first).assertServed(p.t)
	(<-second).assertServed(p.t)
}

// Where it is only refused to tell who waits, they are served all the same, and the
// operator reads once what that costs and what to allow.
func TestRestrictedWaiting(t *testing.T) {
	const asks = ".* asks every 5 to 500 ms .*; allow SUBSCRIBE, and PUBLISH in scripts, on the channels reqlock:inbox:"
	cases := []struct {
		name string
		restriction
		log string // of who waits
	}{
		{"no SUBSCRIBE", without("subscribe"), "SUBSCRIBE: NOPERM" + asks},
		{"no channels", restriction{rights: "~* resetchannels +@all"}, "SUBSCRIBE: NOPERM" + asks},
		{"other channels", restriction{rights: "~* &shop:* +@all"}, "SUBSCRIBE: NOPERM" + asks},
		{"no pub/sub at all", without("@pubsub"), "SUBSCRIBE: NOPERM" + asks},
		{"SUBSCRIBE unknown to a proxy", restriction{"", "subscribe", unknownCommand}, "SUBSCRIBE: ERR unknown command" + asks},
		{"SUBSCRIBE ends the connection", restriction{"", "subscribe", closes}, "SUBSCRIBE fails, while scripts are run: EOF" + asks},
		{"SUBSCRIBE swallowed", restriction{"", "subscribe", silence}, "SUBSCRIBE fails, while scripts are run: .*timeout" + asks},
		{"no PUBLISH", without("publish"), "PUBLISH in scripts: .*" + asks},
		{"no PUBSUB", without("pubsub"), "PUBSUB NUMSUB in scripts: .*given to a process that died waiting.*; allow PUBSUB"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := c.pair(t)
			p.contend()
			p.waiter.awaitLog("backend restricted")
			p.contend()
			p.waiter.requireOneWarning(c.log)
			require.Empty(t, p.holder.log.String(), "it has not waited")
		})
	}
}

// Without INFO there is no protection after a restart, which each process says.
func TestRestrictedInfo(t *testing.T) {
	for _, r := range []restriction{without("info"), {"", "info", unknownCommand}} {
		p := r.pair(t)
		p.contend()
		for _, s := range []*service{p.holder, p.waiter} {
			s.awaitLog("backend restricted")
			s.requireOneWarning("INFO: (NOPERM|ERR unknown command).*restart.*; allow INFO")
		}
	}
}

const saysWhatToAllow = `.*must be allowed EVAL, EVALSHA, the commands in the scripts and the keys .* see the comment of package redislock`

// What is refused and can't be done without is told to the first who needs it.
func TestRestrictedScripts(t *testing.T) {
	cases := []struct {
		name string
		restriction
		log string
	}{
		{"no scripts", without("@scripting"), "NOPERM.*eval"},
		{"no EVAL", without("eval evalsha"), "NOPERM.*eval"},
		{"scripts unknown to a proxy", restriction{"", "eval evalsha", unknownCommand}, "unknown command 'EVAL'"},
		{"other keys", restriction{rights: "~shop:* &* +@all"}, "NOPERM"},
		{"no EXISTS", without("exists"), "script"},
		{"no SET", without("set"), "script"},
		{"no TIME", without("time"), "script"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, client := c.start(t)
			s := serve(t, client(), answerDone)
			for range 3 {
				s.post("key").assertUnavailable(t)
			}
			s.requireOneWarning(c.log + saysWhatToAllow)
		})
	}
}

// What only a waiter needs is told to the first who waits. The holder is served.
func TestRestrictedScriptsOfWaiters(t *testing.T) {
	for _, command := range []string{"get", "hdel", "hset", "pexpire", "pttl", "zadd", "zcard", "zrank", "zscore"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			p := without(command).pair(t)
			first := p.post(p.holder)
			if command == "get" { // who gives back needs it as well
				p.finish <- struct{}{}
				(<-first).assertServed(t)
				p.holder.requireOneWarning("script" + saysWhatToAllow)
				return
			}
			p.awaitStart(first)
			for range 3 {
				p.waiter.post("key").assertUnavailable(t)
			}
			p.waiter.requireOneWarning("script" + saysWhatToAllow)
			p.finish <- struct{}{}
			(<-first).assertServed(t)
		})
	}
}

// A server sends the script for the first use and its hash for the next, which is
// then the first to be refused.
func TestRestrictedHashes(t *testing.T) {
	_, client := without("evalsha").start(t)
	s := serve(t, client(), answerDone)
	s.post("key").assertServed(t)
	for range 3 {
		s.post("key").assertUnavailable(t)
	}
	s.requireOneWarning("NOPERM.*evalsha" + saysWhatToAllow)
}

// Who may not delete keeps what it has until the TTL ends it: to the next the key
// is taken, and the operator reads why.
func TestRestrictedRelease(t *testing.T) {
	_, client := without("del").start(t)
	s := serve(t, client(), answerDone, middleware.WithTTL(time.Second), middleware.WithWait(0))
	s.post("key").assertServed(t)
	s.requireOneWarning("script" + saysWhatToAllow)
	require.Equal(t, http.StatusTooManyRequests, s.post("key").status)
	require.Eventually(t, func() bool { return s.post("key").status == http.StatusOK }, patience, 10*time.Millisecond)
}

// The rights in the package comment suffice, and cover what the scripts do.
func TestRestrictedToWhatIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, rights, found := strings.Cut(string(doc), "ACL SETUSER reqlock on '>secret' ")
	require.True(t, found)
	rights, _, _ = strings.Cut(rights, "//\n")
	rights = strings.Join(strings.Fields(strings.NewReplacer("//", " ", "'", "", "\\", "").Replace(rights)), " ")

	scripts, err := filepath.Glob("*.lua")
	require.NoError(t, err)
	calls := regexp.MustCompile(`(?:call|refusal)\('(\w+)'`)
	for _, name := range scripts {
		script, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, call := range calls.FindAllStringSubmatch(string(script), -1) {
			require.Regexp(t, `\+`+strings.ToLower(call[1])+`\b`, rights, name)
		}
	}

	p := restriction{rights: rights}.pair(t)
	p.contend()
	p.contend()
	require.Empty(t, p.holder.log.String())
	require.Empty(t, p.waiter.log.String())
}
