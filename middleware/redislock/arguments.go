package redislock

import "time"

// question asks for the lock: see acquire.lua.
func (s *lease) question() command {
	n := &s.names
	return s.locker.scripts.acquire.with(
		&n.lock, &n.fence, &n.tombstones, &n.queue, &n.entries,
		&s.token, millis(s.ttl), &s.mode, &s.inbox, millis(s.placeFor()), s.maxQueue, s.waited(),
		millis(s.locker.restarts.guard()),
	)
}

// farewell gives the lock up, and enters next: see leave.lua. next may be nil, and
// is left out once it has gone: it has given up its token.
func (s *lease) farewell(next *lease) command {
	c := s.locker.scripts.leaving(&s.names, &s.token, s.tombstoneFor())
	if next != nil && next.succession.Load() != departed {
		c.args = append(c.args, &next.token, millis(next.ttl), &next.inbox, millis(next.placeFor()), next.waited())
	}
	return c
}

func (s *scripts) leaving(n *names, token *string, tombstone time.Duration) command {
	return s.leave.with(&n.lock, &n.fence, &n.tombstones, &n.queue, &n.entries, token, millis(tombstone))
}

// extension extends the lock: see extend.lua.
func (s *lease) extension() command {
	n := &s.names
	return s.locker.scripts.extend.with(
		&n.lock, &n.fence, &n.interrupt,
		&s.token, millis(s.ttl), millis(keepFence(s.ttl)), time.Since(s.since).Microseconds(),
	)
}

// waited is the age of a caller in µs. It is what its place in Redis' queue goes
// by, and not when its question arrives there.
func (s *lease) waited() int64 { return time.Since(s.arrived).Microseconds() }
