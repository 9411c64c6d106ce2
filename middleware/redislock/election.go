package redislock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// ask makes one attempt, with a token of its own.
func (q *quorum) ask(ctx context.Context, s *lease, patience time.Duration) (answer, error) {
	if s.try {
		q.locker.tries.Forget(s.key) // from here on the replies may be older than whoever comes
	}
	n := &nominee{lease: s, caller: s.token, token: rand.Text(), start: time.Now()}
	unopened := q.admit(n)
	n.unsettled.Store(int32(len(q.members)))
	s.unsettled = &n.unsettled
	given := q.vote(ctx, patience, ballot{
		kind:    acquire,
		command: n.acquireCommand,
		enough:  func(vs votes) bool { return vs.count(q.gives) >= q.most || vs.count(no) > len(vs)-q.most },
		then:    n.settled,
	})
	if given.count(q.gives) >= q.most {
		if a, ok := q.agree(ctx, n, given); ok {
			return a, nil
		}
	}
	q.takeBack(n, given)
	switch {
	case ctx.Err() != nil:
		return answer{}, context.Cause(ctx)
	case given.count(known)+given.count(crowded) < q.most:
		return answer{}, q.unavailable(given)
	case given.count(known) < q.most:
		return answer{}, errNoTrip
	default:
		s.placed = s.placed || !s.try
		return q.refused(n, given, unopened), nil
	}
}

// gives says that a member has given the lock, and has not been restarted since, as
// far as is known.
func (q *quorum) gives(v *vote) bool {
	return yes(v) && v.restarts == q.members[v.member].restarts.count.Load()
}

// A nominee is one attempt of a caller.
type nominee struct {
	*lease
	caller, token string // caller is what the lease's token was when the attempt began
	start         time.Time
	channels      []string     // where the caller hears that a lock is free, by member; "": it does not
	unsettled     atomic.Int32 // members that may still give the lock
}

// admit finds out where the caller of n hears that a lock is free. unopened says that
// it could hear more.
func (q *quorum) admit(n *nominee) (unopened bool) {
	n.channels = make([]string, len(q.members))
	if n.try {
		return false
	}
	select {
	case <-n.grants: // of an attempt before
	default:
	}
	for i, in := range q.inboxes {
		in.mu.Lock()
		status := in.register(n.lease)
		in.mu.Unlock()
		switch status {
		case inboxUp:
			n.channels[i] = in.channel
		case inboxUnopened, inboxOpening:
			unopened = true
		}
	}
	return unopened
}

func (n *nominee) acquireCommand(on *server, member int) command {
	k, caller := &n.names, ""
	if n.channels[member] != "" {
		caller = n.caller
	}
	return on.scripts.acquire.with(
		&k.lock, &k.fence, &k.tombstones, &k.queue, &k.entries,
		&n.token, millis(n.ttl), caller, &n.channels[member], millis(n.placeFor()), n.waited(),
		millis(on.restarts.guard()),
	)
}

// settled notes that no acquire of a member can arrive later.
func (n *nominee) settled(_ *server, v *vote) {
	if !v.uncertain && v.outcome != unknown {
		n.unsettled.Add(-1)
	}
}

// agree has the members note the fences of n, to whom most have given the lock, and
// makes it the holder. false: too few have, or it has taken too long.
func (q *quorum) agree(ctx context.Context, n *nominee, given votes) (answer, bool) {
	a := answer{code: granted, sent: n.start, until: n.start.Add(validFor(n.ttl))}
	for _, v := range given {
		if v != nil && yes(v) {
			a.fence = max(a.fence, v.answer.fence)
		}
	}
	last := a.fence + maxHandoff - 1
	agreed := q.vote(context.WithoutCancel(ctx), callTimeout, ballot{
		kind: agree,
		command: func(on *server, _ int) command {
			k := &n.names
			return on.scripts.agree.with(&k.lock, &k.fence, &n.token, last, millis(keepFence(n.ttl)))
		},
		enough: q.decided,
	})
	if agreed.count(yes) < q.most || !time.Now().Before(a.until) {
		return answer{}, false
	}
	s := n.lease
	q.forget(s)
	s.token, s.placed = n.token, false
	s.mutex = q.locker.redsync.NewMutex(s.names.lock, mutexOptions{s})
	if s.mutex.TryLockContext(agreed.verdicts(acquire)) != nil {
		return answer{}, false
	}
	a.due = s.nextRenewal(n.start)
	return a, true
}

// decided says that the votes that have not come change nothing.
func (q *quorum) decided(vs votes) bool {
	return vs.count(yes) >= q.most || vs.count(no) > len(vs)-q.most
}

// refused returns how the lock stands after an attempt that came to nothing.
func (q *quorum) refused(n *nominee, given votes, unopened bool) answer {
	a := answer{code: queued, sent: n.start}
	switch {
	case n.try:
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
	if missing := q.most - got; missing > 0 && missing <= len(lefts) {
		a.left = lefts[missing-1]
	}
	a.kept = got+kept >= q.most
	n.inbox = ""
	told := 0
	for _, channel := range n.channels {
		if channel != "" {
			told++
		}
	}
	if got == 0 && told >= q.most { // where nobody has the lock, nobody will tell
		n.inbox = n.channels[slices.IndexFunc(n.channels, func(c string) bool { return c != "" })]
	}
	return a
}

// unavailable returns why too few have voted.
func (q *quorum) unavailable(vs votes) error {
	var errs []error
	for _, v := range vs {
		if v != nil && v.err != nil {
			errs = append(errs, fmt.Errorf("%s%w", q.members[v.member].health.server, v.err))
		}
	}
	return unavailable(fmt.Errorf("%d of %d servers answer: %w", vs.count(known), len(vs), errors.Join(errs...)))
}
