package redislock

import (
	"context"
	"errors"
	"time"

	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/redis/go-redis/v9"
)

// redsync is the mutex: it acquires, extends and unlocks through the Pool and
// the Conn that it is given. Ours run our scripts in the place of its SETNX and
// of its two scripts, so that an acquire can be repeated, brings a fence and
// sees a token that was given up. What redsync's interfaces have no room for
// travels both ways in a call, which is the context that redsync hands on from
// its caller to Pool.Get.

// An operation is what redsync is asked to do.
type operation int

const (
	acquire operation = iota
	extend
	release
	interrupt
)

// An outcome is how a call ended.
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

// A call is one operation, the context that it runs with, and the Conn that it
// runs on. As a context it carries the values of its parent but not its end: an
// operation that has been sent is seen through, whoever has stopped waiting. As
// a Conn it is no connection: go-redis has those.
type call struct {
	parent context.Context
	lease  *lease
	op     operation
	bound  time.Duration   // of all attempts together
	ctx    context.Context // what redsync made of the call, with a deadline

	next *lease // with a release: who is entered on the way; may be nil

	sent      time.Time // when the newest attempt began
	outcome   outcome
	answer    answer // to an acquire, or to next
	err       error  // where the outcome is not known
	uncertain bool   // an attempt has ended as unknown
	reply     any    // to an extend
	restarts  int64  // of the server that were known when an acquire was written
}

// do has redsync do the operation, again where that fails quickly. It takes
// c.bound at most. The error is redsync's.
//
// The caller has a place among the slots of the connections.
func (c *call) do(operation func(context.Context) error) (err error) {
	l := c.lease.locker
	l.persist(c.bound, func(bound time.Duration) (outcome, bool) {
		err = c.attempt(bound, operation)
		tooLate := c.outcome == done && err != nil
		return c.outcome, c.outcome.known() && !tooLate
	})
	if !l.isClosed() {
		l.health.report(c, result{c.op, c.outcome, c.err})
	}
	return err
}

// attempt does the operation once.
func (c *call) attempt(bound time.Duration, operation func(context.Context) error) error {
	c.outcome, c.err, c.answer, c.sent = unknown, nil, answer{}, time.Now()
	ctx := context.Context(c)
	if c.op != acquire || bound < c.bound { // redsync bounds an acquire by itself: see mutexOptions
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(c, bound)
		defer cancel()
	}
	err := operation(ctx)
	c.uncertain = c.uncertain || c.outcome == unknown
	return err
}

type callKey struct{}

func (c *call) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c *call) Done() <-chan struct{}       { return nil }
func (c *call) Err() error                  { return nil }
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.parent.Value(key)
}

// pool is the redsync Pool of every Locker.
type pool struct{}

func (pool) Get(ctx context.Context) (redsyncredis.Conn, error) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return nil, errors.New("redislock: redsync asks without a call")
	}
	c.ctx = ctx
	return c, nil
}

// SetNX is redsync's acquire.
func (c *call) SetNX(string, string, time.Duration) (bool, error) {
	s, l := c.lease, c.lease.locker
	if s.try {
		// From here on the reply may be older than whoever comes now.
		l.tries.Forget(s.key)
	}
	if err := l.restarts.settle(c.ctx); err != nil {
		c.outcome, c.err = unsent, err
		return false, err
	}
	c.restarts = l.restarts.count.Load()
	reply, err := c.run(l.askClient, &l.scripts.acquire, s.question()...)
	if err != nil {
		return false, err
	}
	fields, _ := reply.([]any)
	c.answer, err = readAnswer(fields, c.sent)
	switch {
	case err != nil:
		c.outcome, c.err = refused, err
		return false, err
	case c.answer.code == granted:
		c.outcome = done
		return true, nil
	default:
		c.outcome = notOurs
		return false, nil
	}
}

// Eval is redsync's extend, its unlock, and its clean-up after an acquire.
func (c *call) Eval(*redsyncredis.Script, ...any) (any, error) {
	s, l := c.lease, c.lease.locker
	switch c.op {
	case acquire:
		// redsync cleans up after every acquire that did not give it the lock,
		// also where the reply was a plain no, and on its caller's time. We do
		// it where there is something to clean up, and later: see giveUp.
		return int64(0), nil
	case extend:
		return c.ownership(c.reply, c.err) // see extendAll
	default:
		reply, err := c.run(l.holdClient, &l.scripts.leave, s.farewell(c.next)...)
		fields, _ := reply.([]any)
		if len(fields) > 1 {
			c.answer, _ = readAnswer(fields[1:], c.sent) // where it makes no sense, next asks itself
			if c.answer.code == granted {
				c.answer = c.next.grantedAfter(c.sent, c.answer.fence)
			}
		}
		return c.ownership(integer(fields, 0), err)
	}
}

// ownership reads the integer that extend and leave reply, and tells redsync
// whether the token still had the lock.
func (c *call) ownership(reply any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	switch reply {
	case int64(1):
		c.outcome = done
	case int64(2):
		c.outcome = doneInterrupted
	case int64(0):
		c.outcome = notOurs
		return int64(0), nil
	default:
		c.outcome = gone
		return int64(0), nil
	}
	return int64(1), nil
}

// run runs a script and, where that fails, sorts what the failure means.
func (c *call) run(client *redis.Client, script *script, keysAndArgs ...any) (any, error) {
	reply, err := script.run(c.ctx, client, keysAndArgs...)
	if err != nil {
		err = explained(err)
		c.outcome, c.err = failure(err), err
	}
	return reply, err
}

func (c *call) Close() error { return nil }

// The rest of the interface is of no use to the operations above.

var errUnused = errors.New("redislock: not used with redsync")

func (*call) Get(string) (string, error)            { return "", errUnused }
func (*call) Set(string, string) (bool, error)      { return false, errUnused }
func (*call) ScriptLoad(*redsyncredis.Script) error { return errUnused }
func (*call) PTTL(string) (time.Duration, error)    { return 0, errUnused }
