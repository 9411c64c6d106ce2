package redislock

// An interruption asks the holder of a key in another process to stop: a rider.
type interruption struct {
	locker *Locker
	names  names

	result
	held bool // somebody holds the key
}

func (i *interruption) command() command {
	return i.locker.scripts.interrupt.with(&i.names.lock, &i.names.interrupt)
}

func (i *interruption) take(reply any, err error) (outcome, bool) {
	i.held, i.result = reply == int64(1), result{interrupt, done, nil}
	if err != nil {
		i.result = failed(interrupt, err)
	}
	return i.outcome, i.outcome.replied()
}
