package proctest

import (
	"bytes"
	"strings"
	"sync"
)

// maxOutput bounds what is kept of a process' output.
const maxOutput = 1 << 20

// output keeps the last maxOutput bytes written to it and wakes who waits for
// a line.
type output struct {
	mu    sync.Mutex
	buf   []byte
	start int           // where the current run's output starts in buf
	ended bool          // the current run writes no more
	more  chan struct{} // closed, and replaced, at every change
}

func newOutput() *output { return &output{more: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = append(o.buf, b...)
	if over := len(o.buf) - maxOutput; over > 0 {
		o.buf = append(o.buf[:0], o.buf[over:]...)
		o.start = max(0, o.start-over)
	}
	o.wake()
	return len(b), nil
}

// begin says that what follows is another run's.
func (o *output) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.start, o.ended = len(o.buf), false
}

// end says that the current run is over.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.wake()
}

func (o *output) wake() {
	close(o.more)
	o.more = make(chan struct{})
}

// find returns the first line of the current run that contains s. One without
// its line end counts only when the run has ended. Where nothing is found,
// more is closed when there is something new to look at.
func (o *output) find(s string) (line string, found, ended bool, more <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rest := o.buf[o.start:]
	for {
		l, tail, complete := bytes.Cut(rest, []byte("\n"))
		if (complete || o.ended) && bytes.Contains(l, []byte(s)) {
			return strings.TrimSuffix(string(l), "\r"), true, o.ended, o.more
		}
		if !complete {
			return "", false, o.ended, o.more
		}
		rest = tail
	}
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.buf)
}
