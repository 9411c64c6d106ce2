package redislock

import (
	"context"
	"errors"
	"fmt"
	"time"

	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/redis/go-redis/v9"

	"github.com/reqlock/reqlock/middleware/lock"
)

// redsync is the mutex: it acquires, extends and unlocks through the Pool and
// the Conn that it is given. Ours run our scripts in the place of its SETNX and
// of its two scripts, so that an acquire can be repeated, brings a fence and
// sees a token that was given up. What redsync's interfaces have no room for
// travels both ways in a question, which is the context that redsync hands on
// from its caller to Pool.Get.

// An answer is what a question came back with.
type answer int

const (
	unknown answer = iota // nothing came back: it may have been done, or may yet be
	unsent                // it never left, and never will
	yes                   // held, extended or released
	asked                 // extended, and the holder is asked to stop
	others                // the lock is another token's
	nobodys               // the lock is gone
	refused               // the server answered that it will not
)

// A question is one operation of redsync's, the context that it runs with, and
// the Conn that it runs on. As a context it carries the values of its parent but
// not its end: an operation that has been sent is seen through, whoever has
// stopped waiting. It has a deadline of its own, which go-redis sets on the
// socket, and no Done: that saves a timer for each operation, and the waits that
// go-redis does outside of the socket are bounded by its options, see derive.
// As a Conn it is no connection: go-redis has those.
type question struct {
	parent context.Context
	lease  *lease
	op     operation
	ctx    context.Context // what redsync made of it

	deadline time.Time // of the attempt under way

	answer answer
	fence  uint64        // of yes, to acquire
	left   time.Duration // of others, to acquire: until that lease runs out
	err    error         // of unknown, unsent and refused
	lost   bool          // an attempt came back as unknown
}

type operation int

const (
	acquire operation = iota
	extend
	leave
)

// put has redsync do the operation, and once more where the first time failed
// quickly: that is most often a connection which the server had closed, or one
// that took longer to open than the lease was to last. All three operations can
// be repeated.
func (q *question) put(do func(context.Context) error) (err error) {
	start := time.Now()
	for range 2 {
		q.answer, q.err, q.deadline = unknown, nil, time.Now().Add(opTimeout)
		err = do(q)
		q.lost = q.lost || q.answer == unknown
		inTime := q.answer != yes || err == nil
		if q.answer.given() && inTime || time.Since(start) > opTimeout/2 {
			break
		}
	}
	if !errors.Is(q.err, errClosed) {
		q.lease.locker.health.report(q, q.err)
	}
	return err
}

// given says whether the server has answered the question.
func (a answer) given() bool { return a != unknown && a != unsent && a != refused }

type questionKey struct{}

func (q *question) Deadline() (time.Time, bool) { return q.deadline, true }
func (q *question) Done() <-chan struct{}       { return nil }
func (q *question) Err() error                  { return nil }
func (q *question) Value(key any) any {
	if key == (questionKey{}) {
		return q
	}
	return q.parent.Value(key)
}

// pool is the redsync Pool of a Locker.
type pool struct{}

func (pool) Get(ctx context.Context) (redsyncredis.Conn, error) {
	q, ok := ctx.Value(questionKey{}).(*question)
	if !ok {
		return nil, errors.New("redislock: redsync asked without a question")
	}
	q.ctx = ctx
	return q, nil
}

// SetNX is redsync's acquire.
func (q *question) SetNX(string, string, time.Duration) (bool, error) {
	s, l := q.lease, q.lease.locker
	if l.isClosed() {
		q.answer, q.err = unsent, errClosed
		return false, q.err
	}
	if err := l.asking.take(q.ctx); err != nil {
		q.answer, q.err = unsent, fmt.Errorf("no free connection: %w", err)
		return false, q.err
	}
	defer l.asking.give()
	if s.try {
		// From here on the answer may be older than whoever comes now.
		l.tries.Forget(s.key)
	}
	reply, err := q.run(l.askClient, &l.scripts.acquire, s.names.lock, s.names.fence, s.names.dead,
		s.token, millis(s.ttl), millis(keepFence(s.ttl)))
	if err != nil {
		return false, err
	}
	fields, _ := reply.([]any)
	switch code, value := integer(fields, 0), integer(fields, 1); {
	case len(fields) == 2 && code == 1 && value > 0:
		q.answer, q.fence = yes, uint64(value)
		return true, nil
	case len(fields) == 2 && code == 0:
		q.answer, q.left = others, time.Duration(value)*time.Millisecond
		return false, nil
	default:
		q.answer, q.err = refused, fmt.Errorf("acquire script replied %v", reply)
		return false, q.err
	}
}

// Eval is redsync's extend, its unlock, and its clean-up after an acquire.
func (q *question) Eval(*redsyncredis.Script, ...any) (any, error) {
	s, l := q.lease, q.lease.locker
	switch q.op {
	case acquire:
		// redsync cleans up after every acquire that did not give it the lock,
		// also where the answer was a plain no, and on its caller's time. We do
		// it where there is something to clean up, and later: see Locker.ask.
		return int64(0), nil
	case extend:
		return q.settle(q.run(l.holdClient, &l.scripts.extend, s.names.lock, s.names.fence, s.names.interrupt,
			s.token, millis(s.ttl), millis(keepFence(s.ttl))))
	default:
		return q.settle(q.run(l.holdClient, &l.scripts.leave, s.names.lock, s.names.dead,
			s.token, millis(s.deadFor())))
	}
}

// settle reads the integer that extend and leave reply, and tells redsync
// whether the token still had the lock.
func (q *question) settle(reply any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	switch reply {
	case int64(1):
		q.answer = yes
	case int64(2):
		q.answer = asked
	case int64(0):
		q.answer = others
		return int64(0), nil
	default:
		q.answer = nobodys
		return int64(0), nil
	}
	return int64(1), nil
}

// run runs a script and, where that fails, sorts what the failure means.
func (q *question) run(client *redis.Client, script *script, keysAndArgs ...any) (any, error) {
	reply, err := script.run(q.ctx, client, keysAndArgs...)
	if err != nil {
		q.answer, q.err = failure(err), err
	}
	return reply, err
}

func (q *question) Close() error { return nil }

// The rest of the interface is of no use to the operations above.

var errUnused = errors.New("redislock: not used with redsync")

func (*question) Get(string) (string, error)            { return "", errUnused }
func (*question) Set(string, string) (bool, error)      { return false, errUnused }
func (*question) ScriptLoad(*redsyncredis.Script) error { return errUnused }
func (*question) PTTL(string) (time.Duration, error)    { return 0, errUnused }

func integer(fields []any, i int) int64 {
	if i >= len(fields) {
		return 0
	}
	n, _ := fields[i].(int64)
	return n
}

// millis rounds up, so that a lease in Redis outlasts the one that we count on.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// keepFence is how long a fence is remembered after the last sign of a holder.
// Server time alone makes fences rise; the counter covers a server whose clock
// is set back, or a successor whose clock is behind, by less than this.
func keepFence(ttl time.Duration) time.Duration { return ttl + time.Minute }

// unavailable does not wrap err: a timeout of ours would match
// context.DeadlineExceeded, which to the caller means its own deadline.
func unavailable(err error) error {
	return fmt.Errorf("redislock: %w: %v", lock.ErrUnavailable, err)
}
