package redislock

import (
	"context"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// takeBack gives back what an attempt that came to nothing has got, or may yet get. It
// waits for those members that have certainly given something.
func (q *quorum) takeBack(n *nominee, given votes) {
	q.vote(context.Background(), callTimeout, ballot{
		kind: release,
		among: func(member int) bool {
			v := given[member]
			return v == nil || !no(v) && v.outcome != unsent
		},
		command: func(on *server, member int) command {
			remember := tombstone(n.ttl)
			if v := given[member]; v != nil && yes(v) && !v.uncertain {
				remember = 0
			}
			c := on.scripts.leaveCommand(&n.names, &n.token, remember)
			c.args = append(c.args, "quiet")
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
		then: q.makeUp(n.lease, n.token),
	})
}

// makeUp has a token given up in the background where a member has not said that it is.
func (q *quorum) makeUp(s *lease, token string) func(*server, *vote) {
	return func(on *server, v *vote) {
		if !known(v) {
			on.cleanup.add(givenUp{s.names, token, tombstone(s.ttl), time.Now().Add(s.ttl + tombstone(s.ttl))})
		}
	}
}

func (q *quorum) unlock(ctx context.Context, s *lease, until time.Time) error {
	start := time.Now()
	token, remember := s.token, s.tombstoneFor()
	// A lease that is over is in no hurry: it runs out by itself.
	patience := max(callTimeout, min(until.Sub(start), 4*opTimeout))
	vs := q.vote(context.WithoutCancel(ctx), patience, ballot{
		kind: release,
		command: func(on *server, _ int) command {
			return on.scripts.leaveCommand(&s.names, &token, remember)
		},
		enough: q.decided,
		then:   q.makeUp(s, token),
	})
	given, _ := s.mutex.UnlockContext(vs.verdicts(release))
	stolen := func(v *vote) bool { return v.outcome == notOurs }
	switch {
	case given:
		return nil
	case vs.count(no) <= len(vs)-q.most: // those who have not said may have had it
		return q.unavailable(vs)
	case start.Before(until) && vs.count(stolen) > 0:
		return lock.ErrStolen
	default:
		return lock.ErrExpired
	}
}
