package redislock

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// trustSign is for how long the answer to a handshake is not taken for a sign of life
// again, where it is all that there is.
const trustSign = 5 * time.Second

// A prober asks a server for a sign of life, as a caller would: with the user's hooks, and
// a script, which does nothing.
type prober struct {
	server    *server
	client    *redis.Client // opens a connection for each probe
	hooked    commander     // client, with the user's hooks
	handshook atomic.Bool   // the newest connection
	trusted   time.Time     // when the answer to a handshake was last enough
}

func newProber(on *server, options *redis.Options, open newClient, hooked *redis.Client) *prober {
	p := &prober{server: on}
	o := *options
	o.ConnMaxIdleTime = time.Nanosecond
	o.OnConnect = both(func(context.Context, *redis.Conn) error {
		p.handshook.Store(true)
		return nil
	}, o.OnConnect)
	p.client = derive(&o, open, 1, on.connections, on.restarts.admit)
	p.hooked = withHooks(hooked, p.client)
	return p
}

// probe returns why there was no sign of life; nil: there was, or nobody can tell, as
// where a hook fails. The breaker calls it, once at a time.
func (p *prober) probe() error {
	start := time.Now()
	err := p.ask()
	if unreachable(err) && time.Since(start) < retryWithin {
		err = p.ask() // one connection may be closed at once
	}
	switch {
	case err == errUnlooked: // it was restarted, and has said so
		return nil
	case unasked(err):
		return err
	case !unreachable(err):
		return nil
	case p.handshook.Load() && time.Since(p.trusted) > trustSign:
		// On a slow line that is all that there is time for.
		p.trusted = time.Now()
		return nil
	default:
		return err
	}
}

func (p *prober) ask() error {
	on := p.server
	p.handshook.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_, err := on.run(ctx, p.hooked, on.scripts.sign.with())
	r := result{op: sign, outcome: done}
	if err != nil {
		r = failed(sign, err)
	}
	if r.outcome.replied() {
		on.breaker.heard()
	}
	on.health.report(context.Background(), r)
	return err
}
