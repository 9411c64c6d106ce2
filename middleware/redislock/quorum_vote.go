package redislock

import (
	"context"
	"errors"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// A ballot is what the members of a quorum are asked at once.
type ballot struct {
	kind    operation
	command func(on *server, member int) command // called when it is about to be sent, which may be late
	among   func(member int) bool                // who is asked; nil: all
	enough  func(votes) bool                     // whether those that have come will do; nil: all are waited for
	then    func(*server, *vote)                 // called with each, however late; may be nil
}

// A vote is what one member says.
type vote struct {
	ballot
	member int

	result             // of the newest attempt
	sent     time.Time // when that was written
	restarts int64     // of the member that had been noticed by then
	answer   answer    // to an acquire

	uncertain bool // an attempt has ended as unknown
}

var _ request = (*vote)(nil)

func (v *vote) write(on *server) command {
	v.answer, v.sent, v.restarts = answer{}, time.Now(), on.restarts.count.Load()
	return v.command(on, v.member)
}

func (v *vote) settle(reply any, err error) (outcome, bool) {
	switch {
	case err != nil:
		v.result = failed(v.kind, err)
	case v.kind == acquire:
		v.answer, v.result = acquired(reply, v.sent)
	default:
		v.result = ownership(v.kind, reply)
	}
	if v.kind == release && v.uncertain && v.outcome.known() {
		v.outcome = done // the attempt that had no reply has done it
	}
	v.uncertain = v.uncertain || v.outcome == unknown
	return v.outcome, v.outcome.known()
}

// trips are those that the ballot is sent in.
func (b ballot) trips(on *server) *trips {
	switch b.kind {
	case acquire:
		return &on.asks
	case interrupt:
		return &on.interrupts
	default:
		return &on.releases
	}
}

// poll returns the votes of the members, once there are enough or all have come; nil
// stands for one that has not come, and for who was not asked. What has been sent is
// seen through all the same. ctx and patience are as for trips.do.
func (q *quorum) poll(ctx context.Context, patience time.Duration, b ballot) votes {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	came := make(chan *vote, len(q.members))
	asked := 0
	for i, on := range q.members {
		if b.among != nil && !b.among(i) {
			continue
		}
		asked++
		v := &vote{ballot: b, member: i}
		if !q.begin() {
			v.result = result{b.kind, unsent, errClosed}
			came <- v
			continue
		}
		go func() {
			defer q.asking.Done()
			q.collect(ctx, patience, on, v)
			came <- v
		}()
	}
	all := make(votes, len(q.members))
	for ; asked > 0 && (b.enough == nil || !b.enough(all)); asked-- {
		select {
		case v := <-came:
			all[v.member] = v
		case <-ctx.Done():
			return all
		}
	}
	return all
}

// begin counts a member that is asked. false: it is too late.
func (q *quorum) begin() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.asking.Add(1)
	}
	return !q.closed
}

// collect asks one member.
func (q *quorum) collect(ctx context.Context, patience time.Duration, on *server, v *vote) {
	if err := v.trips(on).do(ctx, patience, v); err != nil {
		v.result = result{v.kind, unsent, err}
	} else if !q.locker.isClosed() {
		on.health.report(ctx, v.result)
	}
	if v.then != nil {
		v.then(on, v)
	}
}

// votes are by member; nil has not come.
type votes []*vote

func (vs votes) count(is func(*vote) bool) (n int) {
	for _, v := range vs {
		if v != nil && is(v) {
			n++
		}
	}
	return n
}

// What a vote can be.

func known(v *vote) bool { return v.outcome.known() }
func yes(v *vote) bool   { return v.outcome == done }
func no(v *vote) bool    { return known(v) && !yes(v) }

// crowded says that the member was not asked, for the crowd that waited for it.
func crowded(v *vote) bool { return errors.Is(v.err, lock.ErrBusy) }

// decided says that the votes that have not come change nothing.
func (q *quorum) decided(vs votes) bool {
	return vs.count(yes) >= q.majority || q.denied(vs.count(no))
}

// denied says that so many members are enough for there to be no majority without them.
func (q *quorum) denied(n int) bool { return n > len(q.members)-q.majority }

// verdicts returns what redsync counts as members that have done what op says.
func (vs votes) verdicts(op operation) verdicts {
	all := make(verdicts, len(vs))
	for i, v := range vs {
		all[i] = result{op: op, err: errNotCome}
		if v != nil {
			all[i] = result{op, v.outcome, v.err}
		}
	}
	return all
}
