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

// tombstoneFor is how long to remember the token when it is released. Where each
// acquire of it had its reply, there is nothing to remember.
func (s *lease) tombstoneFor() time.Duration {
	if !s.uncertain {
		return 0
	}
	return tombstone(s.ttl)
}
