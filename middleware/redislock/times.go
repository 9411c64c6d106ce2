package redislock

import "time"

// opTimeout bounds each step of an operation on Redis: opening a connection, its
// handshake, the command. It has nothing to do with any TTL: a TTL is about
// crashes, this is about a caller who must be answered.
const opTimeout = 500 * time.Millisecond

// callTimeout bounds the steps together, and the second attempt with the first.
// A server that takes 300 ms for a command, behind a link that connects quickly,
// can then be asked on a connection that has to be opened for it.
const callTimeout = 800 * time.Millisecond

// A call that failed within retryWithin is made once more.
const retryWithin = opTimeout / 2

// The first attempts follow each other at once, the others after a pause: what fails
// each time is not to be asked ten thousand times.
const (
	retriesAtOnce = 5
	retryPause    = 2 * time.Millisecond
)

// drift is the part of a TTL by which the clocks of two machines may differ
// over its length, as in the Redlock algorithm. We stop trusting a lease that
// much before Redis drops it.
const drift = 0.01

// validFor is how long a lease is trusted, from before it was asked for: its TTL
// less the drift, and two milliseconds for the precision of Redis' expiry.
func validFor(ttl time.Duration) time.Duration {
	return ttl - time.Duration(float64(ttl)*drift) - 2*time.Millisecond
}

// keepFence is how long a fence is remembered after the last sign of a holder.
// Server time alone makes fences rise; the counter covers a server whose clock
// is set back, or a successor whose clock is behind, by less than this.
func keepFence(ttl time.Duration) time.Duration { return ttl + time.Minute }

// tombstone is how long a token that was given up is remembered: longer than an
// acquire of it can still be on its way.
func tombstone(ttl time.Duration) time.Duration { return max(ttl, 10*time.Second) }

// askEvery is how long after a question a caller that waits asks again: soon
// enough to find a grant of which it was not told, and to keep its place and
// the bound on its lease fresh, or when the holder's lease runs out. Those
// before it are likely to ask then, so it lets them.
func (s *lease) askEvery(a answer) time.Duration {
	d := min(s.ttl/3, 20*time.Second) // a queue is kept for a minute
	if a.left >= 0 {
		d = min(d, a.left+2*time.Millisecond+time.Duration(a.before)*time.Millisecond)
	}
	return d
}

// placeFor is how long a caller keeps its place in the queue without asking
// again. It matters where Redis can't see that its process has died.
func (s *lease) placeFor() time.Duration {
	return min(max(s.ttl, 2*time.Second), time.Minute, max(time.Until(s.deadline), 0)+callTimeout)
}

func earliest(t time.Time, others ...time.Time) time.Time {
	for _, o := range others {
		if o.Before(t) {
			t = o
		}
	}
	return t
}

// tombstoneFor is how long to remember the token when it is released. Where each
// acquire of it had its reply, there is nothing to remember.
func (s *lease) tombstoneFor() time.Duration {
	if !s.uncertain && (s.unsettled == nil || s.unsettled.Load() == 0) {
		return 0
	}
	return tombstone(s.ttl)
}
