package redislock

// An interruption asks the holder of a key in another process to stop.
type interruption struct {
	locker *Locker
	names  names

	result
	held bool // somebody holds the key
}

var _ request = (*interruption)(nil)

func (i *interruption) write() command {
	return i.locker.scripts.interrupt.with(&i.names.lock, &i.names.interrupt)
}

func (i *interruption) settle(reply any, err error) (outcome, bool) {
	if err != nil {
		i.result = failed(interrupt, err)
	} else {
		i.result, i.held = result{interrupt, done, nil}, reply == int64(1)
	}
	return i.outcome, i.outcome.replied()
}
