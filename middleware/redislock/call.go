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
)

// An outcome is how an operation ended.
type outcome int

const (
	unknown         outcome = iota // no reply: it may have been done, or may yet be
	unsent                         // it never left, and never will
	unlooked                       // it was kept back: see restarts
	refused                        // the server replied that it will not
	done                           // acquired, extended or released
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

func failed(op operation, err error) result { return result{op, failure(err), explained(err)} }

// A call is an acquire or a release, with the attempts that it takes.
type call struct {
	lease *lease
	next  *lease // with a release: who is entered on the way; may be nil

	result             // of the newest attempt
	sent     time.Time // when that began
	answer   answer    // to an acquire, or to next
	restarts int64     // that had been noticed when an acquire was written

	uncertain bool // an attempt has ended as unknown
}

// do makes the call, again where that fails quickly, and takes bound at most. An
// attempt that has been sent is seen through, whoever has stopped waiting: ctx is
// for the observer. The caller has a place among the slots of the connections.
func (c *call) do(ctx context.Context, bound time.Duration) {
	l := c.lease.locker
	l.persist(bound, func(bound time.Duration) (outcome, bool) {
		c.attempt(bound)
		c.uncertain = c.uncertain || c.outcome == unknown
		return c.outcome, c.outcome.known() && !c.tooLate()
	})
	if !l.isClosed() {
		l.health.report(ctx, c.result)
	}
}

// attempt makes the call once.
func (c *call) attempt(bound time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	c.answer, c.sent = answer{}, time.Now()
	if c.op == acquire {
		c.result = c.acquire(ctx)
	} else {
		c.result = c.release(ctx)
	}
}

// tooLate says that the lock was granted, and the lease is over by now.
func (c *call) tooLate() bool {
	return c.op == acquire && c.outcome == done && !time.Now().Before(c.sent.Add(validFor(c.lease.ttl)))
}

func (c *call) acquire(ctx context.Context) result {
	s, l := c.lease, c.lease.locker
	if s.try {
		// From here on the reply may be older than whoever comes now.
		l.tries.Forget(s.key)
	}
	if err := l.restarts.settle(ctx); err != nil {
		return result{acquire, unsent, err}
	}
	c.sent = time.Now() // that was no part of the question
	c.restarts = l.restarts.count.Load()
	s.mode = "try"
	if !s.try {
		l.inbox.admit(s)
	}
	reply, err := l.scripts.acquire.run(ctx, l.askClient, s.question())
	if err != nil {
		return failed(acquire, err)
	}
	fields, _ := reply.([]any)
	c.answer, err = readAnswer(fields, c.sent)
	switch {
	case err != nil:
		return result{acquire, refused, err}
	case c.answer.code == granted:
		return result{acquire, done, nil}
	default:
		return result{acquire, notOurs, nil}
	}
}

func (c *call) release(ctx context.Context) result {
	s, l := c.lease, c.lease.locker
	reply, err := l.scripts.leave.run(ctx, l.holdClient, s.farewell(c.next))
	if err != nil {
		return failed(release, err)
	}
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

// ownership reads what extend.lua and leave.lua reply first.
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
