package memlock

import (
	"context"
	"sync"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// fences gives out fences that follow a clock: this process's own, or that of the
// Locker that memlock stands in for, as far as it is known.
type fences struct {
	mu    sync.Mutex
	last  uint64 // the newest, of any key
	ahead int64  // the other clock's lead on this one, in µs
	known bool   // whether ahead has been seen
}

// next returns the greater of the last fence + 1 and the clock in microseconds,
// which stays below 1<<53 until the year 2255, with a lead of at most maxFence
// until 2112 or for as many years from then on.
func (f *fences) next() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = max(f.last+1, uint64(max(time.Now().UnixMicro()+f.ahead, 0)))
	return f.last
}

// A sample is what a fence tells of the clock that it follows. The zero value
// tells nothing.
type sample struct {
	of    lock.Lease
	ahead int64
}

// maxFence is in the middle of what fences can be. One above it follows no
// clock, and would leave no room for those to come.
const maxFence = 1 << 52

// take looks for a lease of the same key in the context of an Acquire, before
// that waits: then the fence is as old as a message is under way.
func take(ctx context.Context, key string) sample {
	l, ok := lock.From(ctx)
	if !ok || l.Key() != key {
		return sample{}
	}
	fence := l.Fence()
	if fence == 0 || fence > maxFence {
		return sample{}
	}
	return sample{l, int64(fence) - time.Now().UnixMicro()}
}

// note is called once the key was granted: a lease in the context that is still
// held then is another Locker's.
//
// A sample is too low by the time that the fence was under way, never too high, so
// the greatest counts. One that is lower by more than that can be has it that a
// clock was set, or that another server is asked.
func (f *fences) note(s sample) {
	if s.of == nil || s.of.Context().Err() != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.known || s.ahead > f.ahead || s.ahead < f.ahead-time.Second.Microseconds() {
		f.known, f.ahead = true, s.ahead
	}
}
