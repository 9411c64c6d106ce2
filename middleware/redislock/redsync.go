package redislock

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
)

// redsync is the mutex: it judges whether the lock was acquired, extended or
// given up. It asks the server through the Pool and the Conn that it is given, of
// which ours have the reply at hand: a result, which travels in the context. The
// trip was made before, for two reasons. redsync's interfaces have no room for
// what our scripts are told and reply. And it asks in goroutines of its own, of
// one mutex at a time: a trip there costs a release 50 µs of the hand-off, most
// of that for a stack that has to grow, and cannot be one for many.

// mutexOptions are redsync's for the mutex of a lease, as one.
type mutexOptions struct{ *lease }

func (o mutexOptions) Apply(m *redsync.Mutex) {
	redsync.WithExpiry(o.ttl).Apply(m)
	redsync.WithDriftFactor(drift).Apply(m)
	redsync.WithGenValueFunc(func() (string, error) { return o.token, nil }).Apply(m)
	redsync.WithValue(o.token).Apply(m) // a grant comes without an acquire
}

// A result is itself the context in which redsync finds it. That is never done; its
// deadline is long past, so that redsync sets no timer for what waits for nothing.
var _ context.Context = (*result)(nil)

type resultKey struct{}

func (r *result) Value(key any) any {
	if key == (resultKey{}) {
		return r
	}
	return nil
}

func (*result) Deadline() (time.Time, bool) { return time.Time{}, true }
func (*result) Done() <-chan struct{}       { return nil }
func (*result) Err() error                  { return nil }

// pool is the redsync Pool of every Locker.
type pool struct{}

func (pool) Get(ctx context.Context) (redsyncredis.Conn, error) {
	r, ok := ctx.Value(resultKey{}).(*result)
	if !ok {
		return nil, errors.New("redislock: redsync asks without a result")
	}
	return r, nil
}

// SetNX is redsync's acquire.
func (r *result) SetNX(string, string, time.Duration) (bool, error) {
	return r.outcome == done, r.err
}

// Eval is redsync's extend and its unlock. It is also its clean-up after an
// acquire that did not give it the lock, which happens where the reply was a plain
// no as well. We clean up where there is something to clean up, and later: see
// leaveBehind.
func (r *result) Eval(*redsyncredis.Script, ...any) (any, error) {
	switch {
	case r.err != nil:
		return nil, r.err
	case r.op != acquire && (r.outcome == done || r.outcome == doneInterrupted):
		return int64(1), nil
	default:
		return int64(0), nil
	}
}

func (r *result) Close() error { return nil }

// The rest of the interface is of no use to the operations above.

var errUnused = errors.New("redislock: not used with redsync")

func (*result) Get(string) (string, error)            { return "", errUnused }
func (*result) Set(string, string) (bool, error)      { return false, errUnused }
func (*result) ScriptLoad(*redsyncredis.Script) error { return errUnused }
func (*result) PTTL(string) (time.Duration, error)    { return 0, errUnused }
