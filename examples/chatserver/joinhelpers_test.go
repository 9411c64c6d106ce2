package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/reqlock/reqlock/middleware"
)

// A meteredModel is the built-in model, with a bill. It begins when it is let.
type meteredModel struct {
	demoModel
	let chan struct{} // closed then; nil: at once

	runs, cut, tokens atomic.Int64
}

func newMeteredModel() *meteredModel { return &meteredModel{let: make(chan struct{})} }

func (m *meteredModel) prepare(body []byte) (http.HandlerFunc, *apiError) {
	answer, problem := m.demoModel.prepare(body)
	return func(w http.ResponseWriter, r *http.Request) {
		m.runs.Add(1)
		defer func() {
			if r.Context().Err() != nil {
				m.cut.Add(1)
			}
		}()
		if m.let != nil {
			select {
			case <-m.let:
			case <-r.Context().Done():
			}
		}
		answer(&meter{w, &m.tokens}, r)
	}, problem
}

func (m *meteredModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, problem := readBody(w, r)
	if problem == nil {
		var answer http.HandlerFunc
		if answer, problem = m.prepare(body); problem == nil {
			answer(w, r)
			return
		}
	}
	writeError(w, problem)
}

// A meter counts the tokens that are written.
type meter struct {
	http.ResponseWriter
	tokens *atomic.Int64
}

func (m *meter) Unwrap() http.ResponseWriter { return m.ResponseWriter }

func (m *meter) Write(p []byte) (int, error) {
	data, streamed := strings.CutPrefix(string(p), "data: ")
	if n := gjson.Get(data, "usage.completion_tokens").Int(); !streamed {
		m.tokens.Add(n)
	} else if gjson.Get(data, "choices.0.delta.content").String() != "" {
		m.tokens.Add(1)
	}
	return m.ResponseWriter.Write(p)
}

// requireFollowers waits until so many requests, of all servers in this process, wait for
// an answer that another one has asked for. Nothing tells from outside, where the answer
// has not begun.
func requireFollowers(t *testing.T, want int) {
	t.Helper()
	require.Eventually(t, func() bool {
		var stacks bytes.Buffer
		if !assert.NoError(t, pprof.Lookup("goroutine").WriteTo(&stacks, 1)) {
			return false
		}
		n := 0
		for stack := range strings.SplitSeq(stacks.String(), "\n\n") {
			if strings.Contains(stack, "join.(*viewer).follow+") {
				if i := strings.Index(stack, " @ "); i > 0 {
					var k int
					_, err := fmt.Sscan(stack[strings.LastIndexByte(stack[:i], '\n')+1:i], &k)
					assert.NoError(t, err)
					n += k
				}
			}
		}
		return n == want
	}, 20*time.Second, 10*time.Millisecond, "%d followers", want)
}

// rawAnswer is a response as it came.
type rawAnswer struct {
	status int
	role   string
	header http.Header
	body   string
	err    error
}

// raw sends the call. It may be called from any goroutine.
func (c *call) raw(t *testing.T, client *http.Client, base string) rawAnswer {
	resp, err := client.Do(c.request(t, base))
	if err != nil {
		return rawAnswer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	header := resp.Header.Clone()
	header.Del("Date")
	header.Del(middleware.RoleHeader)
	return rawAnswer{resp.StatusCode, resp.Header.Get(middleware.RoleHeader), header, string(body), err}
}

// crowd sends a call n times at once. It returns the answers when they have come.
func crowd(t *testing.T, c call, n int, base string) (answers func() []rawAnswer) {
	t.Helper()
	client := newClient(t)
	all := make([]rawAnswer, n)
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			c := c
			all[i] = c.raw(t, client, base)
		})
	}
	t.Cleanup(group.Wait) // also where the test has failed
	return func() []rawAnswer {
		group.Wait()
		return all
	}
}

// requireOne checks that all answers are the one there was.
func requireOne(t *testing.T, answers []rawAnswer, leader string) {
	t.Helper()
	roles := make(map[string]int)
	for _, a := range answers {
		roles[a.role]++
		require.NoError(t, a.err)
		require.Equal(t, http.StatusOK, a.status, a.body)
		require.Equal(t, answers[0].body, a.body)
		require.Equal(t, answers[0].header, a.header)
	}
	require.Equal(t, 1, roles[leader], roles)
	require.Equal(t, len(answers)-1, roles["joined"], roles)
}

func tokensOf(c call) int64 {
	return int64(len(demoModel{}.answer(c.user, []message{{Role: "user", Content: content(c.prompt)}})))
}
