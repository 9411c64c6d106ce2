package redislock

import (
	"math/rand/v2"
	"time"
)

// The longest that a waiter sleeps between two questions while another process
// holds the key: at first, and at last.
const (
	firstPoll = 10 * time.Millisecond
	lastPoll  = 500 * time.Millisecond
)

// backoff spaces questions: each pause is about half as long again as the one
// before. Jitter over half of it keeps processes that began together apart.
// The zero value starts at firstPoll.
type backoff struct{ next time.Duration }

// pause returns how long to sleep. left is what the holder's lease has left:
// to sleep past it would add to the time that a dead holder costs. A key that
// somebody else has set never expires, and has nothing left.
func (b *backoff) pause(left time.Duration) time.Duration {
	if b.next == 0 {
		b.next = firstPoll
	}
	d := jitter(b.next)
	b.next = min(b.next*3/2, lastPoll)
	if left >= 0 {
		d = min(d, left+2*time.Millisecond)
	}
	return d
}

// jitter returns something between a half of d and d.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}
