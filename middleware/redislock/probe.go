package redislock

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// A probe is a request that asks for a sign of life: it takes the way of any other, with
// the user's hooks, and a script that does nothing.
type probe struct{ result }

var _ request = (*probe)(nil)

func (p *probe) write(on *server) command { return on.scripts.sign.with() }

func (p *probe) settle(_ any, err error) (outcome, bool) {
	p.outcome, p.err = done, nil
	if err != nil {
		p.result = failed(sign, err)
	}
	return p.outcome, p.outcome.replied()
}

// newProbeClient returns a client that opens a connection for each probe. That its
// handshake is answered is a sign of life already.
func (on *server) newProbeClient(options *redis.Options, open newClient) *redis.Client {
	o := *options
	o.ConnMaxIdleTime = time.Nanosecond
	o.OnConnect = both(func(context.Context, *redis.Conn) error {
		on.signs.Add(1)
		return nil
	}, o.OnConnect)
	return derive(&o, open, 1, on.connections, on.restarts.admit)
}

// probe makes a trip of its own, on a connection that is opened for it. A hook that
// fails is not what the breaker is about.
func (on *server) probe() error {
	p, signs := &probe{result{op: sign}}, on.signs.Load()
	on.probes.trip(callTimeout, p)
	on.health.report(context.Background(), p.result)
	if on.signs.Load() != signs {
		return nil // that is one, however long the rest takes
	}
	if unreachable(p.err) || p.err != nil && unasked(p.err) {
		return p.err
	}
	return nil
}
