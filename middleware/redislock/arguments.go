package redislock

import "time"

// question returns what acquire.lua takes. mode is how the caller waits.
func (s *lease) question(mode string) []any {
	return []any{
		s.names.lock, s.names.fence, s.names.tombstones, s.names.queue, s.names.entries,
		s.token, millis(s.ttl), mode, s.inbox, millis(s.placeFor()), s.maxQueue, s.waited(),
		millis(s.locker.restarts.guard()),
	}
}

// farewell returns what leave.lua takes. next may be nil, and is left out once it
// has gone: it has given up its token.
func (s *lease) farewell(next *lease) []any {
	args := leaveArgs(s.names, s.token, s.tombstoneFor())
	if next != nil && next.succession.Load() != departed {
		args = append(args, next.token, millis(next.ttl), next.inbox, millis(next.placeFor()), next.waited())
	}
	return args
}

func leaveArgs(n names, token string, tombstone time.Duration) []any {
	return []any{n.lock, n.fence, n.tombstones, n.queue, n.entries, token, millis(tombstone)}
}

// waited is the age of a caller in µs. It is what its place in Redis' queue goes
// by, and not when its question arrives there.
func (s *lease) waited() int64 { return time.Since(s.arrived).Microseconds() }
