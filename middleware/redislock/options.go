package redislock

import (
	"errors"
	"fmt"

	"github.com/reqlock/reqlock/middleware/lock"
)

const defaultPrefix = "reqlock:"

// An Option changes what [New] and [NewQuorum] return. Of two that set the same, the last one
// counts.
type Option func(*config) error

type config struct {
	prefix  string
	observe lock.Observer
	handoff int
}

// configure returns what options say, and what is wrong with them.
func configure(opts []Option) (config, []error) {
	c := config{prefix: defaultPrefix, observe: lock.LogTo(nil), handoff: defaultHandoff}
	var errs []error
	for i, o := range opts {
		if o == nil {
			errs = append(errs, fmt.Errorf("redislock: option %d of %d is nil", i+1, len(opts)))
		} else if err := o(&c); err != nil {
			errs = append(errs, err)
		}
	}
	c.observe = shielded(c.observe)
	return c, errs
}

// WithPrefix sets what the names of all keys in Redis begin with; the default
// is "reqlock:". Services that share a server but no locks need different
// ones. It must not be empty, since the keys would mix with the application's
// own, nor contain a brace, since those mark the hash tag.
func WithPrefix(prefix string) Option {
	return func(c *config) error {
		if prefix == "" {
			return errors.New("redislock: WithPrefix: empty prefix")
		}
		for _, c := range prefix {
			if c == '{' || c == '}' {
				return errors.New("redislock: WithPrefix: prefix has a brace")
			}
		}
		c.prefix = prefix
		return nil
	}
}

// WithHandoff sets how many callers of one process, at most, hold a key one after
// the other before the lock goes to whoever has waited longest in any process: 1
// to 64, by default 16. To pass a lease on inside a process costs no command. It
// is passed on only in the first 25 ms after the first of them got it, so work
// that takes longer never is, and only to a caller with the same TTL. 1 keeps the
// order of arrival across processes.
//
// A holder that passes its lease on does not ask Redis, so its Release returns nil
// also where Redis has lost the lock since it was last renewed: who has it then
// hears of that.
func WithHandoff(callers int) Option {
	return func(c *config) error {
		if callers < 1 || callers > maxHandoff {
			return fmt.Errorf("redislock: WithHandoff: %d callers: must be 1 to %d", callers, maxHandoff)
		}
		c.handoff = callers
		return nil
	}
}

// WithObserver sets who is told that a lease was lost, that a server cannot be
// reached, or can again, and that it refuses something. The default writes these to [slog.Default]
// ([lock.LogTo]); an observer of your own replaces it. Should it panic, that is
// logged there.
func WithObserver(o lock.Observer) Option {
	return func(c *config) error {
		if o == nil {
			return errors.New("redislock: WithObserver: nil observer")
		}
		c.observe = o
		return nil
	}
}
