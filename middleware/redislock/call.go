package redislock

import (
	"context"
	"fmt"
	"time"
)

// An operation is what is asked of the server.
type operation int

const (
	acquire operation = iota
	extend
	release
	interrupt
	agree // on the fences of a lease: see quorum
	sign  // of life: see breaker
)

// An outcome is how an operation ended.
type outcome int

const (
	unknown         outcome = iota // no reply: it may have been done, or may yet be
	unsent                         // it never left, and never will
	unlooked                       // it was kept back: see restarts
	refused                        // the server replied that it will not
	elsewhere                      // it replied that the key is another's, or on its way there
	done                           // it was done
	doneInterrupted                // extended, and the holder is asked to stop
	notOurs                        // the lock is another token's
	gone                           // the lock is nobody's
)

// known says whether the server has said how the lock stands.
func (o outcome) known() bool { return o >= done }

// replied says whether the server has said anything.
func (o outcome) replied() bool { return o >= refused }

// A result is how an operation ended that the server should have carried out.
type result struct {
	op      operation
	outcome outcome
	err     error // where the outcome is not known
}

// elsewhere returns what the server said of where the key is, if that is all it did.
func (r result) elsewhere() error {
	if r.outcome != elsewhere {
		return nil
	}
	return r.err
}

func failed(op operation, err error) result { return result{op, failure(err), explained(err)} }

// A call is the request to acquire or to release, with the attempts that it takes.
type call struct {
	lease  *lease
	server *server // that was asked in the newest attempt

	result             // of that
	began    time.Time // when the first attempt was written
	sent     time.Time // when the newest was
	next     *lease    // with a release: who is entered on the way, looked for with each attempt until there is one; may be nil
	answer   answer    // to an acquire, or to next
	restarts int64     // that had been noticed when an acquire was written

	uncertain bool // an attempt has ended as unknown
}

var _ errand = (*call)(nil)

// do makes the call. ctx ends the wait for a trip; what has been sent is seen
// through. An error says that nothing was sent: see trips.
func (c *call) do(ctx context.Context, h *homes, patience time.Duration) error {
	if err := h.send(ctx, c.lease.names.lock, patience, c); err != nil {
		return err
	}
	if !h.locker.isClosed() {
		c.server.health.report(ctx, c.result)
	}
	return nil
}

func (c *call) trips(on *server) *trips {
	c.server = on
	if c.op == acquire {
		return &on.asks
	}
	return &on.releases
}

func (c *call) elsewhere() error { return c.result.elsewhere() }

// write is where a caller becomes known to Redis.
func (c *call) write(on *server) command {
	s, l := c.lease, c.lease.locker
	c.answer, c.sent = answer{}, time.Now()
	if c.began.IsZero() {
		c.began = c.sent
	}
	if c.op == release {
		if c.next == nil {
			c.next = on.inbox.successor(s)
		}
		return on.leaveCommand(s, c.next)
	}
	c.restarts = on.restarts.count.Load()
	if s.try {
		// From here on the reply may be older than whoever comes now.
		l.tries.Forget(s.key)
		s.mode = "try"
	} else {
		on.inbox.admit(s)
	}
	return on.acquireCommand(s)
}

func (c *call) settle(reply any, err error) (o outcome, settled bool) {
	switch {
	case err != nil:
		c.result = failed(c.op, err)
	case c.op == acquire:
		c.answer, c.result = acquired(reply, c.sent)
	default:
		c.result = c.released(reply)
	}
	c.uncertain = c.uncertain || c.outcome == unknown
	return c.outcome, c.outcome == elsewhere || c.outcome.known() && !c.tooLate()
}

// tooLate says that the lock was granted, and the lease is over by now.
func (c *call) tooLate() bool {
	return c.op == acquire && c.outcome == done && !time.Now().Before(c.sent.Add(validFor(c.lease.ttl)))
}

// acquired reads what acquire.lua replies.
func acquired(reply any, sent time.Time) (answer, result) {
	fields, _ := reply.([]any)
	a, err := readAnswer(fields, sent)
	switch {
	case err != nil:
		return answer{}, result{acquire, refused, err}
	case a.code == granted:
		return a, result{acquire, done, nil}
	case a.code == dead:
		return a, result{acquire, gone, errGivenUp}
	default:
		return a, result{acquire, notOurs, nil}
	}
}

func (c *call) released(reply any) result {
	if fields, ok := reply.([]any); ok && len(fields) > 1 { // of next as well
		reply = fields[0]
		c.answer, _ = readAnswer(fields[1:], c.sent) // where it makes no sense, next asks itself
		if c.answer.code == granted {
			c.answer = c.next.grantedAfter(c.sent, c.answer.fence)
		}
	}
	if _, ok := reply.(int64); !ok {
		return result{release, refused, fmt.Errorf("leave script replied %v", reply)}
	}
	return ownership(release, reply)
}

// ownership reads what the scripts reply, or reply first, that are told a token.
func ownership(op operation, reply any) result {
	switch reply {
	case int64(1):
		return result{op, done, nil}
	case int64(2):
		return result{op, doneInterrupted, nil}
	case int64(0):
		return result{op, notOurs, nil}
	default:
		return result{op, gone, nil}
	}
}
