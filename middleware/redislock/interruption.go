package redislock

// An interruption asks the holder of a key in another process to stop.
type interruption struct {
	names  names
	server *server // that was asked

	result
	held bool // somebody holds the key
}

var _ errand = (*interruption)(nil)

func (i *interruption) trips(on *server) *trips {
	i.server = on
	return &on.interrupts
}

func (i *interruption) elsewhere() error { return i.result.elsewhere() }

func (i *interruption) write(on *server) command {
	return on.scripts.interrupt.with(&i.names.lock, &i.names.interrupt)
}

func (i *interruption) settle(reply any, err error) (outcome, bool) {
	if err != nil {
		i.result = failed(interrupt, err)
	} else {
		i.result, i.held = result{interrupt, done, nil}, reply == int64(1)
	}
	return i.outcome, i.outcome.replied()
}
