package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// readFirst reads an answer up to its first token.
func readFirst(t *testing.T, r io.Reader) (read string) {
	t.Helper()
	buf := make([]byte, 1<<10)
	for range 2 { // the role, the token
		k, err := r.Read(buf)
		require.NoError(t, err)
		read += string(buf[:k])
	}
	return read
}

func TestShutdownLetsAnswersFinish(t *testing.T) {
	for _, signal := range []func(*pod){func(p *pod) { p.Terminate() }, func(p *pod) { p.Interrupt() }} {
		p := startPod(t, "-model-delay", "20ms")
		client := newClient(t)
		c := &call{user: "alice", prompt: "wait for me", stream: true}
		resp, err := client.Do(c.request(t, p.url))
		require.NoError(t, err)
		defer resp.Body.Close()
		read := readFirst(t, resp.Body)
		signal(p)
		p.WaitFor("shutting down")
		rest, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Contains(t, read+string(rest), "data: [DONE]\n\n")
		assert.Zero(t, p.ExitCode())
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	p := startPod(t, "-model-delay", "1h")
	client := newClient(t)
	resp, err := client.Do((&call{user: "alice", stream: true}).request(t, p.url))
	require.NoError(t, err)
	defer resp.Body.Close()
	p.Interrupt()
	p.WaitFor("shutting down")
	p.Interrupt()
	assert.Equal(t, -1, p.ExitCode())
}

// What takes longer than a shutdown waits is cut off: visibly, in the middle
// of an answer, and with a status before it has begun. All who wait for an answer
// are told, and so are those whose turn would have come after it, or after
// another server's.
func TestShutdownCutsOff(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	locks := memlock.New()
	elsewhere, err := locks.Acquire(t.Context(), "header%3Acarol:default", lock.Options{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, elsewhere.Release(context.Background())) }()
	model := &announcing{backend: demoModel{delay: time.Hour}, prepared: make(chan struct{}), turns: make(chan struct{}, 10)}
	served := make(chan error, 1)
	go func() { served <- serve(ctx, l, handlerWith(t, locks, model, time.Hour), time.Millisecond) }()
	client := newClient(t)
	url := "http://" + l.Addr().String()
	send := func(c *call) <-chan *call {
		sent := make(chan *call, 1)
		go func() { sent <- c.send(t, client, url) }()
		receive(t, model.prepared)
		return sent
	}

	whole := []<-chan *call{send(&call{user: "bob"})}
	receive(t, model.turns)
	streamed := []<-chan *call{send(&call{user: "alice", stream: true})}
	receive(t, model.turns)
	whole = append(whole, send(&call{user: "bob"}))
	streamed = append(streamed, send(&call{user: "alice", stream: true}))
	requireFollowers(t, 2)
	waiting := send(&call{user: "alice"})
	waitingElsewhere := send(&call{user: "carol"})
	stop()

	for _, sent := range whole {
		c := receive(t, sent)
		assert.Equal(t, http.StatusServiceUnavailable, c.status)
		requireError(t, c.body, "server_error", "shutting_down")
	}
	for _, sent := range streamed {
		c := receive(t, sent)
		assert.ErrorIs(t, c.err, io.ErrUnexpectedEOF, "half an answer looks whole")
		assert.False(t, c.done)
		requireError(t, c.last, "server_error", "shutting_down")
	}
	c := receive(t, waiting)
	assert.Equal(t, http.StatusServiceUnavailable, c.status)
	requireError(t, c.body, "server_error", "shutting_down")
	c = receive(t, waitingElsewhere)
	assert.Equal(t, http.StatusServiceUnavailable, c.status)
	requireError(t, c.body, "server_error", "unavailable")
	require.NoError(t, receive(t, served))
	assert.Len(t, model.turns, 1, "of who waited for alice")
}

// announcing says when a request is about to ask for its turn, and when it has
// it.
type announcing struct {
	backend
	prepared, turns chan struct{}
}

func (a *announcing) prepare(body []byte) (http.HandlerFunc, *apiError) {
	answer, problem := a.backend.prepare(body)
	a.prepared <- struct{}{}
	return func(w http.ResponseWriter, r *http.Request) {
		a.turns <- struct{}{}
		answer(w, r)
	}, problem
}
