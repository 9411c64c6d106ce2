// Package transcript keeps an HTTP response while it is being written, so that others
// can be given the same response: from its first byte, and then live.
package transcript

import (
	"errors"
	"net/http"
	"sync"
)

var (
	// ErrBehind is for a reader that has not kept up with what is kept.
	ErrBehind = errors.New("transcript: the reader is too far behind")
	// ErrTooLate is for who comes when the beginning is not kept any more.
	ErrTooLate = errors.New("transcript: the beginning is not kept any more")
)

// A Transcript is one response: its status and header, the bytes of its body, the points
// at which they were flushed, and how it ended. One goroutine writes it; any number read
// it, each through a [Reader], at their own speed.
//
// It keeps the last bytes of the body, as many as New was told, the newest Write whole, and
// what the fastest reader has not read. Once it has let go of the beginning, nobody new
// can read it.
//
// The fastest reader sets the pace: Write waits as long as all readers are far behind, and
// not for one of several. Who falls behind what is kept is cut off: see maxPatience.
type Transcript struct {
	keep   int64
	window int64 // that who writes may be ahead of the fastest reader

	mu       sync.Mutex
	changed  chan struct{} // closed when anything changes; nil: nobody waits
	head     *Head         // nil: not committed
	blocks   [][]byte      // what is kept; where one has room left, only its end is written to
	gone     int           // blocks that are not kept any more
	start    int64         // of what is kept, in the body
	size     int64         // of the body so far
	flushes  []int64       // sizes at which it was flushed, as far as they are kept, rising
	ended    bool
	cause    error       // why it broke off; nil: it is complete
	trailer  http.Header // once it has ended
	readers  map[*Reader]struct{}
	furthest int64         // offset that a reader is at, at most
	left     bool          // one that was there has left: it may be less
	eased    chan struct{} // closed when Write is to go on; nil: it does not wait
	patience patience
}

// maxWindow is for responses of which more than that is kept.
const maxWindow = 64 << 10

// New returns a Transcript that keeps so many bytes of the body.
func New(keep int64) *Transcript {
	return &Transcript{keep: keep, window: min(keep, maxWindow), readers: make(map[*Reader]struct{})}
}

// A Head is what comes before the body of a response. It does not change.
type Head struct {
	Status int
	Header Changes
}

// Commit sets the head. Only the first call counts, and it comes before all others.
func (t *Transcript) Commit(h Head) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.head == nil {
		t.head = &h
		t.change()
	}
}

// Write appends to the body, unless that has ended. It keeps a copy of p and does not
// fail.
func (t *Transcript) Write(p []byte) (int, error) { return appendTo(t, p) }

// WriteString is Write.
func (t *Transcript) WriteString(s string) (int, error) { return appendTo(t, s) }

func appendTo[T []byte | string](t *Transcript, p T) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return len(p), nil
	}
	first := add(t, p)
	t.change()
	if n, start := t.excess(first); n > 0 {
		t.await(start)
		t.trim(n, start)
	}
	for len(t.readers) > 0 && t.size-t.pace() > t.window {
		t.eased = make(chan struct{})
		eased := t.eased
		t.mu.Unlock()
		<-eased
		t.mu.Lock()
	}
	t.mu.Unlock()
	return len(p), nil
}

// pace returns the offset that the fastest reader is at. The mutex is held.
func (t *Transcript) pace() int64 {
	if t.left { // not when each of them leaves: all may, at once
		t.left, t.furthest = false, 0
		for r := range t.readers {
			t.furthest = max(t.furthest, r.offset)
		}
	}
	return t.furthest
}

// ease has Write look again. The mutex is held.
func (t *Transcript) ease() {
	if t.eased != nil {
		close(t.eased)
		t.eased = nil
	}
}

// As much is allocated at a time as there was so far, within these: most responses are
// short, and writes small.
const minBlock, maxBlock = 512, 4 << 10

// add copies p into the last block, then into another one, and returns the first of
// them. Readers have slices of these: what has been written is never moved, nor written
// again.
func add[T []byte | string](t *Transcript, p T) (first int) {
	before := t.size
	t.size += int64(len(p))
	first = len(t.blocks)
	if n := len(t.blocks); n > 0 {
		last := t.blocks[n-1]
		if fits := min(len(p), cap(last)-len(last)); fits > 0 {
			t.blocks[n-1] = append(last, p[:fits]...)
			p, first = p[fits:], n-1
		}
	}
	if len(p) > 0 {
		room := max(len(p), int(min(max(before, minBlock), maxBlock)))
		t.blocks = append(t.blocks, append(make([]byte, 0, room), p...))
	}
	return first
}

// excess returns how many blocks before one are not needed, and where the next one starts.
func (t *Transcript) excess(before int) (n int, start int64) {
	start = t.start
	for ; n < before; n++ {
		end := start + int64(len(t.blocks[n]))
		if t.size-end < t.keep || len(t.readers) > 0 && end > t.pace() { // the fastest reader is waited for
			break
		}
		start = end
	}
	return n, start
}

// trim lets go of the first blocks, and cuts off who has not read them.
func (t *Transcript) trim(n int, start int64) {
	t.start = start
	clear(t.blocks[:n]) // the array stays for a while
	t.blocks, t.gone = t.blocks[n:], t.gone+n
	past := 0
	for past < len(t.flushes) && t.flushes[past] < t.start {
		past++
	}
	t.flushes = t.flushes[past:]
	for r := range t.readers {
		if r.offset < t.start {
			t.remove(r)
			r.behind(ErrBehind)
		}
	}
}

// Flush notes that what was written so far was flushed.
func (t *Transcript) Flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.flushes); n == 0 || t.flushes[n-1] < t.size {
		t.flushes = append(t.flushes, t.size)
		t.change()
	}
}

// Complete ends the transcript of a response that is whole. The trailer, which may be
// nil, must not be changed any more.
func (t *Transcript) Complete(trailer http.Header) { t.end(nil, trailer) }

// Break ends the transcript of a response that was broken off. A cause, which must not
// be nil, is what readers get.
func (t *Transcript) Break(cause error) { t.end(cause, nil) }

// end ends it. Only the first call counts.
func (t *Transcript) end(cause error, trailer http.Header) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.ended, t.cause, t.trailer = true, cause, trailer
		t.change()
	}
}

// change wakes who waits. The mutex is held.
func (t *Transcript) change() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}
