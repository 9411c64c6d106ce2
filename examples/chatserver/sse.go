package main

import (
	"encoding/json"
	"io"
	"net/http"
)

// An eventStream writes a response of server-sent events and sends each one on
// its way as it is written. Once all who wait for it have gone it does nothing:
// the request's context tells.
type eventStream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// startEvents sends the headers at once: the client sees that its turn has
// come, even if the first token takes a while.
func startEvents(w http.ResponseWriter) *eventStream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // asks nginx not to collect the tokens
	w.WriteHeader(http.StatusOK)
	s := &eventStream{w: w, rc: http.NewResponseController(w)}
	s.flush()
	return s
}

// data sends one event.
func (s *eventStream) data(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // types of our own only: cannot happen
	}
	s.line("data: " + string(data))
	s.line("")
}

// line writes a line of an event. An empty one ends and sends the event.
func (s *eventStream) line(line string) {
	_, _ = io.WriteString(s.w, line+"\n")
	if line == "" || line[0] == ':' { // a comment keeps the connection alive
		s.flush()
	}
}

func (s *eventStream) flush() { _ = s.rc.Flush() }

// done says that the answer is complete. Without it clients know it is not.
func (s *eventStream) done() {
	s.line("data: [DONE]")
	s.line("")
}

// breakOff ends an answer that is not complete: it says why, since it is too
// late for a status, and then breaks the connection, so that nobody who only
// looks at that takes half an answer for a whole one.
func (s *eventStream) breakOff(why *apiError) {
	s.data(why)
	panic(http.ErrAbortHandler)
}
