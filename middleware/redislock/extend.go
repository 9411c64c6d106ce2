package redislock

import (
	"context"
	"time"
)

// extendAll extends leases in one trip, the first being the most urgent. redsync
// extends one mutex at a time; each of them finds its reply there already.
func (l *Locker) extendAll(batch []*lease) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), batch[0].extendWithin(start))
	defer cancel()
	args := make([][]any, len(batch))
	for i, s := range batch {
		args[i] = []any{s.names.lock, s.names.fence, s.names.interrupt, s.token, millis(s.ttl), millis(keepFence(s.ttl))}
	}
	replies := l.scripts.extend.runAll(ctx, l.holdClient, args)
	var worst *call
	for i, s := range batch {
		c := &call{parent: s.ctx, lease: s, op: extend}
		if c.reply, c.err = replies[i].Result(); c.err != nil {
			c.outcome = failure(c.err)
		}
		_, _ = s.mutex.ExtendContext(c)
		l.renewals.extended(s, start, c.outcome)
		if worst == nil || !c.outcome.known() {
			worst = c
		}
	}
	if !l.isClosed() {
		l.health.report(worst, result{extend, worst.outcome, worst.err})
	}
}

// extendWithin bounds a trip so that a lease which has little time left can try
// once more on another connection, but not below what a trip takes, with a
// connection opened for it.
func (s *lease) extendWithin(now time.Time) time.Duration {
	return min(callTimeout, max(s.until.Sub(now)*2/3, 3*s.trip))
}
