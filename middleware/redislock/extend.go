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
	l := on.locker
	var lost []*lease
	commands := make([]command, len(batch))
	for i, s := range batch {
		commands[i] = on.extendCommand(s)
	}
	results := on.extendEach(ctx, commands, batch[0].ctx)
	for i, s := range batch {
		_, _ = s.mutex.ExtendContext((*verdict)(&results[i]))
		if !l.renewals.extended(s, start, results[i].outcome) {
			lost = append(lost, s)
		}
	}
	l.lose(lost)
}

// extendEach extends leases in one trip. The operator is told of a failure in the context
// of a lease.
func (on *server) extendEach(ctx context.Context, commands []command, tell context.Context) []result {
	results := make([]result, len(commands))
	worst := result{op: extend, outcome: done}
	for i, cmd := range on.runAll(ctx, on.hold, commands) {
		if reply, err := cmd.Result(); err != nil {
			results[i] = failed(extend, err)
		} else {
			results[i] = ownership(extend, reply)
		}
		if r := results[i]; r.outcome != elsewhere && !r.outcome.known() {
			worst = r
		}
	}
	if !on.locker.isClosed() {
		on.health.report(tell, worst)
	}
	return results
}

// extendWithin bounds a trip so that a lease which has little time left can try
// once more on another connection, but not below what a trip takes, with a
// connection opened for it.
func (s *lease) extendWithin(now time.Time) time.Duration {
	return min(callTimeout, max(s.until.Sub(now)*2/3, 3*s.trip))
}
