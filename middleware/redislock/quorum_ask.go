package redislock

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// maxRivalry is the longest pause after an attempt that got a part of the lock.
const maxRivalry = 30 * time.Millisecond

// A nominee is one attempt of a caller.
type nominee struct {
	lease     *lease
	caller    string // the lease's token when the attempt began, by which it waits
	token     string // of the attempt
	start     time.Time
	channels  []string     // where the caller hears that a lock is free, by member; "": it does not
	unsettled atomic.Int32 // members that may still give the lock
}

// ask makes one attempt.
func (q *quorum) ask(ctx context.Context, s *lease, patience time.Duration) (answer, error) {
	if s.try {
		q.locker.tries.Forget(s.key) // from here on the replies may be older than whoever comes
	}
	n := &nominee{lease: s, caller: s.token, token: crand.Text(), start: time.Now()}
	unopened := q.admit(n)
	n.unsettled.Store(int32(len(q.members)))
	s.unsettled = &n.unsettled
	s.placed = s.placed || !s.try
	given := q.poll(ctx, patience, ballot{
		kind:    acquire,
		command: n.acquireCommand,
		enough:  func(vs votes) bool { return vs.count(q.gives) >= q.majority || q.refuse(vs) },
		then:    n.settled,
	})
	var err error
	if given.count(q.gives) >= q.majority {
		a, e := q.agree(ctx, n, given)
		if a.code == granted {
			return a, nil
		}
		err = e
	}
	q.takeBack(ctx, n, given)
	switch {
	case ctx.Err() != nil:
		return answer{}, context.Cause(ctx)
	case err != nil:
		return answer{}, err
	case q.denied(given.count(no)):
		return q.refused(n, given, unopened), nil
	case given.count(known)+given.count(crowded) < q.majority:
		return answer{}, q.unavailable(given)
	case given.count(known) < q.majority:
		return answer{}, errNoTrip
	default:
		return q.refused(n, given, unopened), nil
	}
}

// gives says that a member has given the lock, and has not been restarted since, as
// far as is known.
func (q *quorum) gives(v *vote) bool {
	return yes(v) && v.restarts == q.members[v.member].restarts.count.Load()
}

// refuse says that an attempt has come to nothing, or that nobody is to wait to see:
// those that have not voted have been silent for a while, and a rival may hold what is
// missing for as long as it waits for them, too.
func (q *quorum) refuse(vs votes) bool {
	if q.denied(vs.count(no)) {
		return true
	}
	for i, v := range vs {
		if v == nil && q.members[i].health.silent() < opTimeout {
			return false
		}
	}
	return vs.count(known) >= q.majority
}

// admit finds out where the caller of n hears that a lock is free. unopened says that
// it could hear more.
func (q *quorum) admit(n *nominee) (unopened bool) {
	n.channels = make([]string, len(q.members))
	if n.lease.try {
		return false
	}
	select {
	case <-n.lease.grants: // of an attempt before
	default:
	}
	for i, on := range q.members {
		switch on.inbox.registered(n.lease) {
		case inboxUp:
			n.channels[i] = on.inbox.channel
		case inboxUnopened, inboxOpening:
			unopened = true
		}
	}
	return unopened
}

// acquireCommand is one for quorum_acquire.lua.
func (n *nominee) acquireCommand(on *server, member int) command {
	s, k, caller := n.lease, &n.lease.names, ""
	if n.channels[member] != "" {
		caller = n.caller
	}
	return on.scripts.acquire.with(
		&k.lock, &k.fence, &k.tombstones, &k.queue, &k.entries,
		&n.token, millis(s.ttl), caller, &n.channels[member], millis(s.placeFor()), s.waited(),
		millis(on.restarts.guard()),
	)
}

// settled notes that no acquire of a member can arrive later.
func (n *nominee) settled(_ *server, v *vote) {
	if !v.uncertain {
		n.unsettled.Add(-1)
	}
}

// agree has the members note the fences of n, to whom most have given the lock, and
// makes it the holder. The zero answer: too few have noted them, or it has taken too
// long; no error: since others have the lock.
func (q *quorum) agree(ctx context.Context, n *nominee, given votes) (answer, error) {
	s := n.lease
	a := answer{code: granted, sent: n.start, until: n.start.Add(validFor(s.ttl))}
	for _, v := range given {
		if v != nil && yes(v) {
			a.fence = max(a.fence, v.answer.fence)
		}
	}
	last := a.fence + maxHandoff - 1
	agreed := q.poll(context.WithoutCancel(ctx), callTimeout, ballot{
		kind: agree,
		command: func(on *server, member int) command {
			k, remember := &s.names, time.Duration(0)
			if v := given[member]; n.channels[member] != "" && (v == nil || v.uncertain) {
				remember = tombstone(s.ttl) // the acquire may come after this, and find a place
			}
			return on.scripts.agree.with(
				&k.lock, &k.fence, &k.tombstones, &k.queue, &k.entries,
				&n.token, last, millis(keepFence(s.ttl)), n.caller, millis(remember),
			)
		},
		enough: q.decided,
	})
	switch {
	case agreed.count(yes) < q.majority && q.denied(agreed.count(no)):
		return answer{}, nil
	case agreed.count(yes) < q.majority:
		return answer{}, q.unavailable(agreed)
	}
	q.unregister(s)
	caller := s.token
	s.token = n.token
	mutex := q.locker.redsync.NewMutex(s.names.lock, mutexOptions{s})
	if err := mutex.TryLockContext(agreed.verdicts(acquire)); err != nil || !time.Now().Before(a.until) {
		s.token = caller
		return answer{}, unavailable(errTooLate)
	}
	s.mutex, s.placed, s.missing = mutex, false, make([]atomic.Bool, len(q.members))
	a.due = s.nextRenewal(n.start)
	return a, nil
}

// refused returns how the lock stands after an attempt that came to nothing.
func (q *quorum) refused(n *nominee, given votes, unopened bool) answer {
	a := answer{code: queued, sent: n.start}
	switch {
	case n.lease.try:
		a.code = held
	case unopened:
		a.code = subscribe
	}
	var lefts []time.Duration // until a member is free
	kept := 0
	for _, v := range given {
		if v != nil && no(v) {
			lefts = append(lefts, v.answer.left)
			if v.answer.kept {
				kept++
			}
		}
	}
	slices.Sort(lefts)
	got := given.count(yes)
	a.kept = got+kept >= q.majority
	switch lacking := q.majority - got; {
	case got > 0 && !a.kept: // what it lacks is likely to be another attempt's, which is over soon
		a.left = rand.N(maxRivalry)
	case lacking > 0 && lacking <= len(lefts):
		a.left = lefts[lacking-1]
	}
	told := 0
	for _, channel := range n.channels {
		if channel != "" {
			told++
		}
	}
	n.lease.inbox = ""
	if got == 0 && told >= q.majority {
		n.lease.inbox = n.channels[slices.IndexFunc(n.channels, func(c string) bool { return c != "" })]
	}
	return a
}

// unavailable returns why too few have voted.
func (q *quorum) unavailable(vs votes) error {
	var reasons []string
	for _, v := range vs {
		switch {
		case v != nil && errors.Is(v.err, errClosed):
			return errClosed
		case v != nil && v.err != nil:
			reasons = append(reasons, q.members[v.member].health.server+v.err.Error())
		}
	}
	return unavailable(fmt.Errorf("%d of %d servers answer: %s", vs.count(known), len(vs), strings.Join(reasons, "; ")))
}
