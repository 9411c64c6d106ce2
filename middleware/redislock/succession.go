package redislock

// Who releases enters the next caller of its process in Redis' queue, by its
// age and with the script that frees the lock, so that the lock goes to whoever
// has waited longest in any process; or it passes the lease on to it (see tenure).
// That caller still sleeps; it finds the answer when its turn comes. Should it leave
// before, one of the two sees to it that its token is given up: it is entered only
// while it has not left, and where it leaves after, it knows.
const (
	waitingBehind int32 = iota
	entered             // or passed the lease
	departed
)

// successor returns the caller behind s, which may from now on be known to Redis and
// hears of a grant, or nil.
func (i *inbox) successor(s *lease) *lease {
	next, ok := s.locker.turns.Next(s.key)
	if !ok {
		return nil
	}
	i.admit(next)
	if !next.succession.CompareAndSwap(waitingBehind, entered) {
		i.unregister(next)
		return nil
	}
	return next
}

// retract is for a caller that leaves before its turn.
func (s *lease) retract() {
	if s.succession.Swap(departed) == entered {
		s.locker.backend.unregister(s)
		s.locker.backend.abandon(s, tombstone(s.ttl))
	}
}
