package middleware

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware/lock"
)

// An Option changes how a [Guard] works. Where one is given twice the last
// wins.
type Option func(*config) error

// config is what the options set. The zero value is not usable, see newConfig.
type config struct {
	acquire  lock.Options
	maxHold  time.Duration
	fallback lock.Locker // nil: none
	skip     func(*http.Request) bool
	deny     DenyFunc
	observer lock.Observer

	sharer      Sharer // nil: each request runs for itself
	noRole      bool
	fingerprint func(*http.Request, []byte) (string, error)
	maxBody     int64
}

// DefaultWait is how long a request waits for its key unless [WithWait] says
// otherwise.
const DefaultWait = 3 * time.Second

func newConfig(opts []Option) (config, error) {
	c := config{
		acquire: lock.Options{Wait: DefaultWait},
		deny:    ProblemJSON,

		observer: lock.LogTo(nil),

		fingerprint: Fingerprint,
		maxBody:     keyfuncs.MaxBody,
	}
	var errs []error
	for i, opt := range opts {
		if opt == nil {
			errs = append(errs, fmt.Errorf("middleware: option %d of %d is nil", i+1, len(opts)))
			continue
		}
		errs = append(errs, opt(&c))
	}
	return c, errors.Join(errs...)
}

// WithTTL sets how long a key stays held after the process that holds it has
// died. 0, the default, is [lock.DefaultTTL]; less than [lock.MinTTL] and more
// than [lock.MaxTTL] are refused.
//
// The TTL is renewed while the handler runs. It is neither a limit on the work
// (that is [WithMaxHold]) nor on the wait ([WithWait]).
func WithTTL(d time.Duration) Option {
	return func(c *config) error {
		c.acquire.TTL = d
		return refuse("WithTTL", lock.Options{TTL: d}.Check())
	}
}

// WithWait sets how long a request waits for a key that another request
// holds, before it is turned away as [Busy]. The default is [DefaultWait]; 0 turns
// away at once, with no place in the queue.
//
// A client that leaves, or a deadline of the request's context, ends the wait
// earlier.
func WithWait(d time.Duration) Option {
	return func(c *config) error {
		c.acquire.Wait = d
		return refuse("WithWait", lock.Options{Wait: d}.Check())
	}
}

// WithMaxQueue sets how many requests of this process may wait for one key at
// a time; one more is turned away as [QueueFull] at once. 0, the default, is
// [lock.DefaultMaxQueue].
//
// It does nothing beside WithWait(0), where nobody waits.
func WithMaxQueue(n int) Option {
	return func(c *config) error {
		c.acquire.MaxQueue = n
		return refuse("WithMaxQueue", lock.Options{MaxQueue: n}.Check())
	}
}

// WithMaxHold sets how long a handler may hold its key: after that its context
// ends with [lock.ErrMaxHold] as the cause. 0, the default, sets no limit.
//
// It counts from when the handler starts; the wait is not part of it. The key
// stays held until the handler returns, since what still runs still needs it. A
// handler that returns without having written anything is answered for with
// [MaxHold]; [lock.Overran] is sent at once, also where it never returns. One that
// does not care for its context and writes later has its
// connection broken off, and its client sees no answer at all, unless that
// declared its Content-Length and is complete.
//
// Without a limit a handler that hangs holds its key for ever: set one that is
// above your longest work.
func WithMaxHold(d time.Duration) Option {
	return func(c *config) error {
		c.maxHold = d
		if d < 0 {
			return fmt.Errorf("middleware: WithMaxHold: %v: must be 0 for no limit, or positive", d)
		}
		if d > 0 && d < time.Millisecond {
			return fmt.Errorf("middleware: WithMaxHold: %v is less than any handler takes: is the unit missing?", d)
		}
		return nil
	}
}

// WithFallback sets what holds the key while the guard's Locker is unavailable. By
// default nothing does, and requests are turned away as [Unavailable].
//
//   - memlock.New(): this process stands in. Requests of one process exclude each
//     other, those of different processes do not. Guards of one Locker take the
//     same one; guards of another Locker, whose keys may have the same text,
//     another one.
//   - [lock.Open]: requests run without a lock, with the fence 0.
//   - any other Locker, a redislock on a second Redis for example.
//
// The guard's own Locker is refused.
//
// While the Locker answers, a request holds its key in the fallback as well: so
// whenever one takes over from the other, a handler that still runs is waited for.
// [WithWait] is for both together. Where the fallback is unavailable, too, requests
// go on without it as long as the Locker answers.
//
// A lease that the Locker gave out is not saved by the fallback: when it can't be
// renewed for its TTL it is lost, and the handler is to stop.
//
// [lock.FallbackBegan] and [lock.FallbackEnded] say when requests run with it, and
// [lock.Acquired] which do.
func WithFallback(l lock.Locker) Option {
	return func(c *config) error {
		c.fallback = l
		if isNil(l) {
			return errors.New("middleware: WithFallback: the lock.Locker is nil")
		}
		return nil
	}
}

// WithSkip lets requests for which skip returns true through without a key or
// a lock: reads beside the writes on one route, say. By default only OPTIONS
// goes through, and it does so whatever skip says.
//
// skip is called concurrently, once a request, before the key is derived. It
// must leave the body alone.
func WithSkip(skip func(*http.Request) bool) Option {
	return func(c *config) error {
		c.skip = skip
		if skip == nil {
			return errors.New("middleware: WithSkip: the function is nil")
		}
		return nil
	}
}

// WithDeny sets what writes the response to a request that is turned away or
// whose handler was cut off before it wrote anything. The default is
// [ProblemJSON].
func WithDeny(deny DenyFunc) Option {
	return func(c *config) error {
		c.deny = deny
		if deny == nil {
			return errors.New("middleware: WithDeny: the function is nil")
		}
		return nil
	}
}

// WithObserver sets who is told of [lock.Acquired], [lock.Denied],
// [lock.Abandoned], [lock.Overran], [lock.Released], [lock.Joined], [lock.FallbackBegan] and
// [lock.FallbackEnded]. The default is [lock.LogTo] with [slog.Default], which
// warns of [KeyFailed], of a handler that overran and of a fallback that stands in,
// and has what requests do at debug level; an observer of your own replaces it.
//
// A Locker has an observer of its own for what happens to its backend and its
// leases; the two may be the same function.
func WithObserver(observer lock.Observer) Option {
	return func(c *config) error {
		c.observer = observer
		if observer == nil {
			return errors.New("middleware: WithObserver: the observer is nil")
		}
		return nil
	}
}

func refuse(option string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("middleware: %s: %w", option, err)
}
