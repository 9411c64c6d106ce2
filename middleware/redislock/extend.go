package redislock

import (
	"context"
	"time"
)

// extendAll is for the line of a server. redsync extends one mutex at a time; each of
// them finds its reply there already.
func (on *server) extendAll(batch []*lease) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), batch[0].extendWithin(start))
	defer cancel()
	commands := make([]command, len(batch))
	for i, s := range batch {
		commands[i] = on.extendCommand(s)
	}
	l := on.locker
	replies := on.runAll(ctx, on.hold, commands)
	var worst result
	var lost []*lease
	for i, s := range batch {
		var r result
		if reply, err := replies[i].Result(); err != nil {
			r = failed(extend, err)
		} else {
			r = ownership(extend, reply)
		}
		_, _ = s.mutex.ExtendContext((*verdict)(&r))
		if !l.renewals.extended(s, start, r.outcome) {
			lost = append(lost, s)
		}
		if r.outcome != elsewhere && (i == 0 || !r.outcome.known()) {
			worst = r
		}
	}
	l.lose(lost)
	if !l.isClosed() {
		on.health.report(batch[0].ctx, worst)
	}
}

// extendWithin bounds a trip so that a lease which has little time left can try
// once more on another connection, but not below what a trip takes, with a
// connection opened for it.
func (s *lease) extendWithin(now time.Time) time.Duration {
	return min(callTimeout, max(s.until.Sub(now)*2/3, 3*s.trip))
}
