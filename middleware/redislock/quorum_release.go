package redislock

import (
	"context"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

func (q *quorum) unlock(ctx context.Context, s *lease, until time.Time) error {
	start := time.Now()
	token, remember := s.token, s.tombstoneFor()
	// A lease that is over is in no hurry: it runs out by itself.
	patience := max(callTimeout, min(until.Sub(start), 4*opTimeout))
	vs := q.poll(context.WithoutCancel(ctx), patience, ballot{
		kind: release,
		command: func(on *server, _ int) command {
			return on.scripts.leaveCommand(&s.names, &token, remember)
		},
		enough: q.decided,
		then:   makeUp(s, token),
	})
	given, _ := s.mutex.UnlockContext(vs.verdicts(release))
	stolen := func(v *vote) bool { return v.outcome == notOurs }
	switch {
	case given:
		return nil
	case !q.denied(vs.count(no)): // those who have not said may have had it
		return q.unavailable(vs)
	case start.Before(until) && vs.count(stolen) > 0: // if another has the key, one of them says so
		return lock.ErrStolen
	default:
		return lock.ErrExpired
	}
}

// takeBack gives back what an attempt that came to nothing has got, or may yet get. It
// waits for those members that have certainly given something. Others are told that
// the lock is free where this caller does not ask for it again.
func (q *quorum) takeBack(ctx context.Context, n *nominee, given votes) {
	s := n.lease
	asksAgain := !s.try && ctx.Err() == nil && time.Now().Before(s.deadline)
	q.poll(context.Background(), callTimeout, ballot{
		kind: release,
		among: func(member int) bool {
			v := given[member]
			return v == nil || yes(v) || v.uncertain
		},
		command: func(on *server, member int) command {
			remember := tombstone(s.ttl)
			if v := given[member]; v != nil && yes(v) && !v.uncertain {
				remember = 0
			}
			c := on.scripts.leaveCommand(&s.names, &n.token, remember)
			if asksAgain {
				c.args = append(c.args, "quiet")
			}
			return c
		},
		enough: func(vs votes) bool {
			for i, v := range given {
				if v != nil && yes(v) && vs[i] == nil {
					return false
				}
			}
			return true
		},
		then: makeUp(s, n.token),
	})
}

// makeUp has a token given up in the background where a member has not said that it is.
func makeUp(s *lease, token string) func(*server, *vote) {
	return func(on *server, v *vote) {
		if !known(v) {
			on.cleanup.add(givenUpBy(s, token, tombstone(s.ttl)))
		}
	}
}
