package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/middleware/lock"
)

// runCtx hands out the context of each run.
type runCtx struct {
	backend
	runs chan context.Context
}

func (b runCtx) prepare(body []byte) (http.HandlerFunc, *apiError) {
	answer, problem := b.backend.prepare(body)
	return func(w http.ResponseWriter, r *http.Request) {
		b.runs <- r.Context()
		answer(w, r)
	}, problem
}

// A lock that is lost ends the answer for all who wait for it: with a status where it
// has not begun, visibly where it has.
func TestLostLockIsToldToAll(t *testing.T) {
	model := runCtx{demoModel{delay: time.Hour}, make(chan context.Context, 1)}
	base := serveTest(t, handlerWith(t, guardtest.NewLosable(), model, time.Minute))
	for _, stream := range []bool{false, true} {
		answers := crowd(t, call{user: "alice", stream: stream}, 5, base)
		run := receive(t, model.runs)
		requireFollowers(t, 4)
		guardtest.Lose(run, lock.ErrExpired)
		for _, a := range answers() {
			if stream {
				assert.Equal(t, http.StatusOK, a.status)
				assert.ErrorIs(t, a.err, io.ErrUnexpectedEOF, "half an answer looks whole")
				events := strings.Split(strings.TrimSuffix(a.body, "\n\n"), "\n\n")
				requireError(t, strings.TrimPrefix(events[len(events)-1], "data: "), "server_error", "lost")
			} else {
				assert.Equal(t, http.StatusServiceUnavailable, a.status)
				assert.NoError(t, a.err)
				requireError(t, a.body, "server_error", "lost")
			}
		}
		assert.True(t, errors.Is(context.Cause(run), lock.ErrLost))
	}
}

// Equal messages that waited in vain are all turned away, and none reaches the model.
func TestCrowdIsTurnedAway(t *testing.T) {
	model := newMeteredModel()
	base := startServer(t, model, 300*time.Millisecond)
	first := crowd(t, call{user: "alice", prompt: "one"}, 1, base)
	require.Eventually(t, func() bool { return model.runs.Load() == 1 }, 5*time.Second, time.Millisecond)
	for _, a := range crowd(t, call{user: "alice", prompt: "two"}, 20, base)() {
		assert.Equal(t, http.StatusTooManyRequests, a.status)
		requireError(t, a.body, "rate_limit_exceeded", "session_busy")
		assert.Empty(t, a.role)
	}
	close(model.let)
	requireOne(t, first(), "leader")
	assert.EqualValues(t, 1, model.runs.Load())
}

// The log says where an answer came from.
func TestLogTellsTheRole(t *testing.T) {
	p := startPod(t, "-model-delay", "0")
	c := (&call{user: "alice"}).send(t, newClient(t), p.url)
	assert.Equal(t, http.StatusOK, c.status)
	p.WaitFor("path=/v1/chat/completions status=200")
	p.WaitFor("role=leader")
	p.get(t, "/v1/models")
	p.WaitFor("path=/v1/models status=200")
	assert.Equal(t, 1, strings.Count(p.Output(), "role="))
}
