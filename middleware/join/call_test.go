package join_test

import (
	"io"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"
)

// A call is one of the handler's. The test says what happens in it, step by step.
type call struct {
	s     *site
	w     http.ResponseWriter
	r     *http.Request
	steps chan func()
	ended chan struct{}
}

// obey is the handler.
func (s *site) obey(w http.ResponseWriter, r *http.Request) {
	c := &call{s: s, w: w, r: r, steps: make(chan func()), ended: make(chan struct{})}
	defer close(c.ended)
	select {
	case s.calls <- c:
	case <-s.over:
		return
	}
	for {
		select {
		case step, ok := <-c.steps:
			if !ok {
				return
			}
			step()
		case <-s.over:
			return
		}
	}
}

// next waits for a call.
func (s *site) next() *call {
	s.t.Helper()
	select {
	case c := <-s.calls:
		return c
	case <-time.After(patience):
		require.FailNow(s.t, "the handler is not called")
		return nil
	}
}

// begin has the handler do something.
func (c *call) begin(step func(w http.ResponseWriter, r *http.Request)) (done <-chan struct{}) {
	c.s.t.Helper()
	finished := make(chan struct{})
	select {
	case c.steps <- func() { defer close(finished); step(c.w, c.r) }:
	case <-time.After(patience):
		require.FailNow(c.s.t, "the handler does not take the next step")
	}
	return finished
}

// do is begin, and waits until it is done.
func (c *call) do(step func(w http.ResponseWriter, r *http.Request)) {
	c.s.t.Helper()
	c.s.await(c.begin(step), "the handler's step")
}

// write has the handler write something, and flush it.
func (c *call) write(text string) {
	c.s.t.Helper()
	c.do(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
	})
}

// end has the handler return.
func (c *call) end() {
	c.s.t.Helper()
	close(c.steps)
	c.s.await(c.ended, "the end of the handler")
}

func (s *site) await(event <-chan struct{}, what string) {
	s.t.Helper()
	select {
	case <-event:
	case <-time.After(patience):
		require.FailNow(s.t, "waited in vain for "+what)
	}
}
