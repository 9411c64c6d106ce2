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
// which ours have the reply at hand: a verdict, which is the context as well. The
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

// A verdict is a result as redsync's Conn, and the context in which redsync finds it.
// That is never done. Its deadline is long past, and yet it is not done: with that
// context.WithTimeout sets no timer, for what waits for nothing.
type verdict result

var (
	_ context.Context   = (*verdict)(nil)
	_ redsyncredis.Conn = (*verdict)(nil)
)

type verdictKey struct{}

func (v *verdict) Value(key any) any {
	if key == (verdictKey{}) {
		return v
	}
	return nil
}

func (*verdict) Deadline() (time.Time, bool) { return time.Time{}, true }
func (*verdict) Done() <-chan struct{}       { return nil }
func (*verdict) Err() error                  { return nil }

// verdicts are those of several servers, and the context in which redsync finds them.
type verdicts []result

var _ context.Context = verdicts(nil)

func (vs verdicts) Value(key any) any {
	if key == (verdictKey{}) {
		return vs
	}
	return nil
}

func (verdicts) Deadline() (time.Time, bool) { return time.Time{}, true }
func (verdicts) Done() <-chan struct{}       { return nil }
func (verdicts) Err() error                  { return nil }

// A pool is the redsync Pool of one server, by its number.
type pool int

// pools are those of n servers.
func pools(n int) []redsyncredis.Pool {
	all := make([]redsyncredis.Pool, n)
	for i := range all {
		all[i] = pool(i)
	}
	return all
}

func (p pool) Get(ctx context.Context) (redsyncredis.Conn, error) {
	switch v := ctx.Value(verdictKey{}).(type) {
	case *verdict:
		return v, nil
	case verdicts:
		return (*verdict)(&v[p]), nil
	default:
		return nil, errors.New("redislock: redsync asks without a verdict")
	}
}

// SetNX is redsync's acquire.
func (v *verdict) SetNX(string, string, time.Duration) (bool, error) {
	return v.outcome == done, v.err
}

// Eval is redsync's extend and its unlock. It is also its clean-up after an
// acquire that did not give it the lock, which happens where the reply was a plain
// no as well. We clean up where there is something to clean up, and later: see
// leaveBehind.
func (v *verdict) Eval(*redsyncredis.Script, ...any) (any, error) {
	switch {
	case v.err != nil:
		return nil, v.err
	case v.op != acquire && (v.outcome == done || v.outcome == doneInterrupted):
		return int64(1), nil
	default:
		return int64(0), nil
	}
}

func (v *verdict) Close() error { return nil }

// The rest of the interface is of no use to the operations above.

var errUnused = errors.New("redislock: not used with redsync")

func (*verdict) Get(string) (string, error)            { return "", errUnused }
func (*verdict) Set(string, string) (bool, error)      { return false, errUnused }
func (*verdict) ScriptLoad(*redsyncredis.Script) error { return errUnused }
func (*verdict) PTTL(string) (time.Duration, error)    { return 0, errUnused }
