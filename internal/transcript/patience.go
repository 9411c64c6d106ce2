package transcript

import "time"

// maxPatience is for how long Write waits for readers that it would cut off, per kept
// bytes: as equal as clients are, one that is not served for a moment is soon far behind
// another. A client that is slow costs the others no more than that before it is cut off.
const maxPatience = time.Second

// patience is what there is of it.
type patience struct {
	left   time.Duration
	size   int64 // of the body when there is more again
	target int64 // that is waited for
	slow   int   // readers that are not there yet
}

// await waits until all readers are at an offset, or patience ends. The mutex is held.
func (t *Transcript) await(offset int64) {
	p := &t.patience
	if t.size >= p.size {
		p.left, p.size = maxPatience, t.size+t.keep
	}
	p.target, p.slow = offset, 0
	for r := range t.readers {
		if r.offset < offset {
			p.slow++
		}
	}
	if p.slow == 0 || p.left <= 0 {
		return
	}
	begun := time.Now()
	timer := time.NewTimer(p.left)
	defer timer.Stop()
	for over := false; p.slow > 0 && !over; {
		t.eased = make(chan struct{})
		eased := t.eased
		t.mu.Unlock()
		select {
		case <-eased:
		case <-timer.C:
			over = true
		}
		t.mu.Lock()
	}
	p.left -= time.Since(begun)
	p.slow = 0 // nobody is waited for now
}

// reached notes that a reader has gone on from an offset to another. The mutex is held.
func (t *Transcript) reached(from, to int64) {
	p := &t.patience
	if p.slow > 0 && from < p.target && to >= p.target {
		if p.slow--; p.slow == 0 {
			t.ease()
		}
	}
}
