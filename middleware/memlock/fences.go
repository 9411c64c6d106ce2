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
	last  uint64 // the greatest, of any key
	alone uint64 // the greatest that is not another Locker's
	ahead int64  // the other clock's lead on this one, in µs
	known bool   // whether ahead has been seen
}

// A sample is what a lease tells of the clock that its fences follow. The zero value
// tells nothing.
type sample struct {
	of    lock.Lease
	fence uint64
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
	return sample{l, fence, int64(fence) - time.Now().UnixMicro()}
}

// next returns the fence of a lease that was just granted. Beside a lease of another
// Locker, which a sample is of that is still held, it is that one's, unless a lease
// without it has had a greater one meanwhile.
//
// Otherwise it is the greater of the last fence + 1 and the clock in microseconds,
// which stays below 1<<53 until the year 2255, with a lead of at most maxFence
// until 2112 or for as many years from then on.
func (f *fences) next(s sample) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.of != nil && s.of.Context().Err() == nil {
		f.note(s.ahead)
		if s.fence > f.alone {
			f.last = max(f.last, s.fence)
			return s.fence
		}
	}
	f.last = max(f.last+1, uint64(max(time.Now().UnixMicro()+f.ahead, 0)))
	f.alone = f.last
	return f.last
}

// note notes a lead. It is too low by the time that the fence was under way, never
// too high, so the greatest counts. One that is lower by more than that can be has it
// that a clock was set, or that another server is asked. The mutex is held.
func (f *fences) note(ahead int64) {
	if !f.known || ahead > f.ahead || ahead < f.ahead-time.Second.Microseconds() {
		f.known, f.ahead = true, ahead
	}
}
