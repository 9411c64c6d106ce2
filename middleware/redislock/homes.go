package redislock

import (
	"context"
	"time"
)

// homes is the backend where each key is on one server, its home.
type homes struct {
	locker *Locker
	topology
}

func newHomes(l *Locker, open func(*Locker) topology) *homes {
	return &homes{locker: l, topology: open(l)}
}

func (h *homes) listen(ctx context.Context, s *lease) error { return s.home.inbox.open(ctx) }

func (h *homes) unregister(s *lease) {
	if s.listens != nil {
		s.listens.unregister(s)
	}
}

func (h *homes) interrupt(ctx context.Context, key string) (bool, error) {
	i := &interruption{names: namesOf(h.locker.prefix, key)}
	if err := h.send(ctx, i.names.lock, callTimeout, i); err != nil {
		return false, unavailable(err)
	}
	i.server.health.report(ctx, i.result)
	if i.err != nil {
		return false, unavailable(i.err)
	}
	return i.held, nil
}

func (h *homes) abandon(s *lease, tombstone time.Duration) {
	on, err := h.home(context.Background(), s.names.lock)
	if err == nil { // or there is no Locker any more
		on.cleanup.add(givenUpBy(s, s.token, tombstone))
	}
}

func (h *homes) line(s *lease) *line {
	s.home = h.follow(s.names.lock, s.home, nil)
	return &s.home.extensions
}

func (h *homes) silentAt(s *lease) time.Time { return s.home.health.silentAt() }

func (h *homes) claimSilence(s *lease, now time.Time) bool { return s.home.health.claimSilence(now) }

// followPause is between two questions about a key that is on its way.
const followPause = 50 * time.Millisecond

// An errand is a request that knows which of a server's trips it makes, and whether
// it has been sent to the wrong server.
type errand interface {
	request
	trips(on *server) *trips
	elsewhere() error // what the server said of that, or nil
}

// send has e carried out by the server that has the key. One that has moved to
// another server is followed; one that is just being moved is waited for, for as
// long as a call takes. Patience is as for trips.do.
func (h *homes) send(ctx context.Context, key string, patience time.Duration, e errand) error {
	start := time.Now()
	on, err := h.home(ctx, key)
	if err != nil {
		return err
	}
	for again := 0; ; again++ {
		if err := e.trips(on).do(ctx, patience, e); err != nil {
			return err
		}
		said := e.elsewhere()
		if said == nil || time.Since(start) > callTimeout-2*followPause {
			return nil
		}
		next := h.follow(key, on, said)
		if next == nil {
			return nil
		}
		if again > 0 || next == on {
			if err := h.locker.sleep(ctx, jitter(followPause)); err != nil {
				return err
			}
		}
		on = next
	}
}
