package redislock

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

// probe makes a trip of its own, for which there is always a connection.
func (on *server) probe() result {
	p := &probe{result{op: sign}}
	on.asks.trip(callTimeout, p)
	return p.result
}
