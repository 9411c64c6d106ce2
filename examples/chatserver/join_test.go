package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// 200 equal requests at once: the model runs once, everybody gets all of its answer,
// its tokens are billed once, and Redis is asked for one of them: twice.
func TestCrowdIsAnsweredOnce(t *testing.T) {
	const n = 200
	for _, through := range []bool{false, true} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("upstream %v, stream %v", through, stream), func(t *testing.T) {
				model := newMeteredModel()
				var b backend = model
				if through {
					b = upstreamAt(t, serveTest(t, model), "sk-ours")
				}
				srv := redistest.Start(t)
				locks, err := redislock.New(srv.Client())
				require.NoError(t, err)
				defer locks.Close()
				base := serveTest(t, handlerWith(t, locks, b, time.Minute))
				// The scripts are loaded, and the connections are there.
				warm := call{user: "bob", prompt: "warm"}
				close(model.let)
				warm.send(t, newClient(t), base)
				model.let = make(chan struct{})
				model.runs.Store(0)
				model.tokens.Store(0)
				monitor := srv.Monitor(t)

				c := call{user: "alice", session: "s", prompt: "say it to all of us", stream: stream}
				answers := crowd(t, c, n, base)
				requireFollowers(t, n-1)
				close(model.let)
				all := answers()
				requireOne(t, all, "leader")
				assert.Contains(t, all[0].body, "alice,")
				assert.EqualValues(t, 1, model.runs.Load())
				assert.Equal(t, tokensOf(c), model.tokens.Load())
				require.Eventually(t, func() bool { return len(srv.Keys("reqlock:*:lock")) == 0 }, 5*time.Second, 10*time.Millisecond)
				calls := monitor.Stop().TopLevel()
				assert.Equal(t, []string{"evalsha", "evalsha"}, calls.Named("evalsha", "eval", "set", "get", "del", "publish", "subscribe").Names(), calls)
			})
		}
	}
}

// What has to wait for the session is joined while it does.
func TestCrowdJoinsInTheQueue(t *testing.T) {
	model := newMeteredModel()
	base := startServer(t, model, time.Minute)
	first := crowd(t, call{user: "alice", prompt: "one"}, 1, base)
	require.Eventually(t, func() bool { return model.runs.Load() == 1 }, 5*time.Second, time.Millisecond)
	second := crowd(t, call{user: "alice", prompt: "two"}, 20, base)
	requireFollowers(t, 19)
	close(model.let)
	requireOne(t, first(), "leader")
	requireOne(t, second(), "queued")
	assert.EqualValues(t, 2, model.runs.Load())
}

// A request whose body comes in chunks, of a length that nobody knows, joins, too.
func TestChunkedRequestJoins(t *testing.T) {
	model := newMeteredModel()
	base := startServer(t, model, time.Minute)
	c := call{user: "alice", session: "s", prompt: "hello"}
	sent := make(chan rawAnswer, 2)
	for range 2 {
		go func() {
			req := c.request(t, base)
			req.Body = io.NopCloser(req.Body)
			req.ContentLength = -1
			resp, err := newClient(t).Do(req)
			if !assert.NoError(t, err) {
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			sent <- rawAnswer{status: resp.StatusCode, role: resp.Header.Get(middleware.RoleHeader), body: string(body), err: err}
		}()
	}
	requireFollowers(t, 1)
	close(model.let)
	requireOne(t, []rawAnswer{receive(t, sent), receive(t, sent)}, "leader")
	assert.EqualValues(t, 1, model.runs.Load())
}

// Whatever the upstream says of its response to this server, the answer is for all who
// ask for it, and each token is on its way to all of them before the next one is there.
func TestUpstreamStreamIsShared(t *testing.T) {
	next := make(chan struct{})
	base := through(t, "sk-ours", func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Set-Cookie", "upstream=1")
		h.Set("Cache-Control", "private, no-store")
		h.Set("Vary", "*")
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		h.Set("X-Reqlock", "leader")
		h.Set("X-Request-Id", "req_1")
		sendTokens(w, r, next)
	})
	client := newClient(t)
	var bodies []*bufio.Reader
	for _, role := range []string{"leader", "joined", "joined"} {
		resp, err := client.Do((&call{user: "alice", stream: true}).request(t, base))
		require.NoError(t, err) // before there is a token
		defer resp.Body.Close()
		assert.Equal(t, role, resp.Header.Get(middleware.RoleHeader))
		assert.Equal(t, "req_1", resp.Header.Get("X-Request-Id"))
		for _, name := range []string{"Set-Cookie", "Vary", "X-Hop", "Connection"} {
			assert.Empty(t, resp.Header.Get(name), name)
		}
		assert.Equal(t, "no-cache", resp.Header.Get("Cache-Control"))
		bodies = append(bodies, bufio.NewReader(resp.Body))
	}
	for i := range 3 {
		next <- struct{}{}
		for _, body := range bodies {
			event := make([]byte, len("data: 0\n\n"))
			_, err := io.ReadFull(body, event)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("data: %d\n\n", i), string(event))
		}
	}
	for _, body := range bodies {
		rest, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, "data: [DONE]\n\n", string(rest))
	}
}

// An answer that fails fails for all: an error is everybody's, and half an answer looks
// whole to nobody.
func TestFailuresAreShared(t *testing.T) {
	tests := []struct {
		name   string
		stream bool
		answer http.HandlerFunc
		status int
		code   string
	}{
		{"refused", false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, http.StatusTeapot, "upstream_failed"},
		{"broken off", false, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, http.StatusBadGateway, "upstream_unreachable"},
		{"broken off in the stream", true, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {}\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, http.StatusOK, "cut_off"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			let := make(chan struct{})
			base := through(t, "", func(w http.ResponseWriter, r *http.Request) {
				<-let
				tt.answer(w, r)
			})
			answers := crowd(t, call{user: "alice", stream: tt.stream}, 5, base)
			requireFollowers(t, 4)
			close(let)
			for _, a := range answers() {
				assert.Equal(t, tt.status, a.status)
				assert.Contains(t, a.body, `"code":"`+tt.code+`"`)
				if tt.stream {
					assert.ErrorIs(t, a.err, io.ErrUnexpectedEOF)
				} else {
					assert.NoError(t, a.err)
				}
			}
		})
	}
}
