package redislock

import "time"

// A command runs a script with its keys and arguments. Those that are pointers are
// sent as what they point to, without being boxed.
type command struct {
	script *script
	args   []any // as go-redis takes them
}

func (s *script) with(keysAndArgs ...any) command {
	return command{s, append(append(make([]any, 0, 3+len(keysAndArgs)), "evalsha", s.hash, s.keys), keysAndArgs...)}
}

// whole has the script sent with the command.
func (c command) whole() { c.args[0], c.args[1] = "eval", c.script.source }

// acquireCommand is one for acquire.lua.
func (on *server) acquireCommand(s *lease) command {
	n := &s.names
	return on.scripts.acquire.with(
		&n.lock, &n.fence, &n.tombstones, &n.queue, &n.entries,
		&s.token, millis(s.ttl), &s.mode, &s.inbox, millis(s.placeFor()), s.maxQueue, s.waited(),
		millis(on.restarts.guard()),
	)
}

// leaveCommand is one for leave.lua. next, who is entered on the way, may be nil,
// and is left out once it has gone: it has given up its token.
func (on *server) leaveCommand(s, next *lease) command {
	c := on.scripts.leaveCommand(&s.names, &s.token, s.tombstoneFor())
	if next != nil && next.succession.Load() != departed {
		c.args = append(c.args, &next.token, millis(next.ttl), &next.inbox, millis(next.placeFor()), next.waited())
	}
	return c
}

// leaveCommand gives up a token for good.
func (s *scripts) leaveCommand(n *names, token *string, tombstone time.Duration) command {
	return s.leave.with(&n.lock, &n.fence, &n.tombstones, &n.queue, &n.entries, token, millis(tombstone))
}

// extendCommand is one for extend.lua.
func (on *server) extendCommand(s *lease) command {
	n := &s.names
	return on.scripts.extend.with(
		&n.lock, &n.fence, &n.interrupt,
		&s.token, millis(s.ttl), millis(keepFence(s.ttl)), time.Since(s.since).Microseconds(),
	)
}

// memberExtendCommand is one for quorum_extend.lua. remind has a member told that does
// not know of the lease.
func (on *server) memberExtendCommand(s *lease, remind bool) command {
	var last any = ""
	if remind {
		last = s.fence - uint64(s.tenure.passes) + maxHandoff - 1
	}
	n := &s.names
	return on.scripts.extend.with(
		&n.lock, &n.fence, &n.interrupt, &n.tombstones,
		&s.token, millis(s.ttl), millis(keepFence(s.ttl)), time.Since(s.since).Microseconds(), last,
	)
}

// waited is the age of a caller in µs. It is what its place in Redis' queue goes
// by, and not when its question arrives there.
func (s *lease) waited() int64 { return time.Since(s.arrived).Microseconds() }
