package redislock

import (
	"context"
	"slices"
	"time"
)

// extendAll is for the line of a quorum. All members are asked at once; it returns when
// enough of them have said of each lease how it stands. What comes later is too late to
// matter and does no harm.
func (q *quorum) extendAll(batch []*lease) {
	start := time.Now()
	bound := batch[0].extendWithin(start)
	type replies struct {
		member  int
		results []result
	}
	came := make(chan replies, len(q.members))
	for i, on := range q.members {
		if !q.begin() {
			came <- replies{member: i}
			continue
		}
		commands := make([]command, len(batch))
		for j, s := range batch {
			commands[j] = on.memberExtendCommand(s, s.forgotten != nil && s.forgotten[i])
			s.unsettled.Add(1) // see extendAt
		}
		go func() {
			defer q.asking.Done()
			ctx, cancel := context.WithTimeout(context.Background(), bound)
			defer cancel()
			came <- replies{i, q.extendAt(ctx, on, commands, batch)}
		}()
	}
	verdictsOf := make([]verdicts, len(batch))
	for i := range batch {
		verdictsOf[i] = make(verdicts, len(q.members))
	}
	for range q.members {
		r := <-came
		for i, one := range r.results {
			verdictsOf[i][r.member] = one
		}
		if !slices.ContainsFunc(verdictsOf, func(vs verdicts) bool { return q.extension(vs) == unknown }) {
			break
		}
	}
	var lost []*lease
	for i, s := range batch {
		s.forgotten = forgotten(verdictsOf[i])
		_, _ = s.mutex.ExtendContext(verdictsOf[i])
		if !q.locker.renewals.extended(s, start, q.extension(verdictsOf[i])) {
			lost = append(lost, s)
		}
	}
	q.locker.lose(lost)
}

// forgotten returns which members have said that the lock is nobody's, nil where none
// has. Should the lease outlive that, they are told of it with its next extension.
func forgotten(vs verdicts) []bool {
	if !slices.ContainsFunc(vs, func(r result) bool { return r.outcome == gone }) {
		return nil
	}
	members := make([]bool, len(vs))
	for i, r := range vs {
		members[i] = r.outcome == gone
	}
	return members
}

// extendAt extends leases at one member. As long as that has no answer it may still
// come, and make the member's lock a token's that was given up.
func (q *quorum) extendAt(ctx context.Context, on *server, commands []command, batch []*lease) []result {
	results := on.extendEach(ctx, commands, batch[0].ctx)
	for i, s := range batch {
		if o := results[i].outcome; o != unknown {
			s.unsettled.Add(-1)
		}
	}
	return results
}

// extension returns how a lease stands by what members have said of it so far.
func (q *quorum) extension(vs verdicts) outcome {
	var said [gone + 1]int
	for _, r := range vs {
		said[r.outcome]++
	}
	switch {
	case said[done]+said[doneInterrupted] >= q.most && said[doneInterrupted] > 0:
		return doneInterrupted
	case said[done]+said[doneInterrupted] >= q.most:
		return done
	case said[notOurs]+said[gone] <= len(vs)-q.most:
		return unknown
	case said[notOurs] > 0:
		return notOurs
	default:
		return gone
	}
}
