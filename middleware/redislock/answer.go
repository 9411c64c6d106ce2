package redislock

import (
	"fmt"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// An answer is how the lock stands for a caller that wants it: what Redis has said,
// or a lease that was passed on. The zero value is none: Redis has to be asked.
type answer struct {
	code code
	sent time.Time // before the question was; the lock was not the caller's then, unless it is granted

	fence  uint64        // its own where granted, otherwise the highest given out
	left   time.Duration // until the holder's lease runs out; negative: never
	before int           // how many wait before it
	kept   bool          // nobody holds the lock: it is kept back after a restart
	until  time.Time     // where granted: the lease is trusted until then
	due    time.Time     // where granted: when to renew it
}

// A code is what acquire.lua replies first, see there.
type code int64

const (
	dead code = iota - 1
	_
	granted
	held
	queued
	subscribe
	full
)

func (a answer) inQueue() bool { return a.code == queued || a.code == subscribe }

// readAnswer reads a reply of acquire.lua, or the second part of one of
// leave.lua.
func readAnswer(reply []any, sent time.Time) (answer, error) {
	a := answer{code: code(integer(reply, 0)), sent: sent, fence: uint64(integer(reply, 1))}
	switch {
	case a.code == dead:
		return a, nil
	case a.code == granted && a.fence > 0:
		return a, nil
	case a.code > granted && a.code <= full && len(reply) >= 3:
		a.left = time.Duration(integer(reply, 2)) * time.Millisecond
		a.before = int(integer(reply, 3))
		a.kept = integer(reply, 4) == 1
		return a, nil
	default:
		return answer{}, fmt.Errorf("acquire script replied %v", reply)
	}
}

// keptBack is for a caller that such an answer sends away.
func keptBack(a answer) error {
	return &lock.UnavailableError{Err: errKeptBack, After: max(time.Millisecond, time.Until(a.sent.Add(a.left)))}
}

// grantedAfter says that the lock is the caller's, with this fence, by something
// that happened after a question sent at that time.
func (s *lease) grantedAfter(sent time.Time, fence uint64) answer {
	return answer{
		code:  granted,
		fence: fence,
		sent:  sent,
		until: sent.Add(validFor(s.ttl)),
		// The question may be a third of the TTL old; nearly as much is left
		// for what has to be tried again.
		due: sent.Add(s.ttl / 2),
	}
}
