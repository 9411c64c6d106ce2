package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

type rueidisPeer struct{ locks rueidislock.Locker }

// openRueidislock does what the README says for a single server: a majority of
// one, and NoLoopTracking where the server is new enough. Without that, a holder
// may answer its own renewals for as long as it holds, thousands of times a second.
//
// TryNextAfter is longer than its 20 ms. There is no next key to try, and a caller
// whose try takes longer, as on a busy machine, would not be told that its own
// clean-up has freed the key: it waits until its context is done.
//
// What cannot be set is that now and then a waiter is not woken: the goroutine
// that watches a failed try can take the waiter's gate away before the failure is
// counted. The tables have it as a failed call.
func openRueidislock(s setup) (locker, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{
			InitAddress: []string{s.redis},
			DialCtxFn:   s.dialRueidis,
		},
		KeyValidity:    s.ttl,
		KeyMajority:    1,
		NoLoopTracking: s.noLoop,
		TryNextAfter:   time.Second,
	})
	return rueidisPeer{locks}, err
}

func (s setup) dialRueidis(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	return s.wire.tap(d.DialContext(ctx, "tcp", addr))
}

// Lock hands on a context that ends with ctx while it waits, and not after. The
// lock would end with it, and its TTL be no longer than what is left until then.
func (l rueidisPeer) Lock(ctx context.Context, key string) (context.Context, func() error, error) {
	outer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	held, unlock, err := l.locks.WithContext(outer, key)
	if waited := stop(); err != nil {
		cancel()
		return nil, nil, cmp.Or(ctx.Err(), err)
	} else if !waited {
		unlock()
		return nil, nil, ctx.Err()
	}
	return held, func() error { unlock(); cancel(); return nil }, nil
}
