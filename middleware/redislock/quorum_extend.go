package redislock

import (
	"context"
	"slices"
	"time"
)

// extendAll is for the line of a quorum. All members are asked at once; it returns when
// enough of them have said of each lease how it stands.
func (q *quorum) extendAll(batch []*lease) {
	start := time.Now()
	came := q.askToExtend(batch, batch[0].extendWithin(start))
	said := make([]verdicts, len(batch))
	for i := range batch {
		said[i] = make(verdicts, len(q.members))
	}
	undecided := func(vs verdicts) bool { return q.extension(vs) == unknown }
	for range q.members {
		m := <-came
		for i, r := range m.results {
			said[i][m.member] = r
		}
		if !slices.ContainsFunc(said, undecided) {
			break
		}
	}
	var lost []*lease
	for i, s := range batch {
		_, _ = s.mutex.ExtendContext(said[i])
		if !q.locker.renewals.extended(s, start, q.extension(said[i])) {
			lost = append(lost, s)
		}
	}
	q.locker.lose(lost)
}

// memberResults are of the leases of a batch. None: the member was not asked.
type memberResults struct {
	member  int
	results []result
}

// askToExtend asks each member, in bound at most. One that is slow is not asked before
// it has answered those before: its connections are not for extensions alone.
func (q *quorum) askToExtend(batch []*lease, bound time.Duration) <-chan memberResults {
	came := make(chan memberResults, len(q.members))
	for i, on := range q.members {
		if on.extending.Add(1) > maxExtending || !q.begin() {
			on.extending.Add(-1)
			came <- memberResults{member: i}
			continue
		}
		commands := make([]command, len(batch))
		for j, s := range batch {
			commands[j] = on.memberExtendCommand(s, s.missing[i].Load())
			s.unsettled.Add(1) // as long as this has no answer, it can make the lock a token's that was given up
		}
		go func() {
			defer q.asking.Done()
			defer on.extending.Add(-1)
			ctx, cancel := context.WithTimeout(context.Background(), bound)
			defer cancel()
			results := on.extendEach(ctx, commands, batch[0].ctx)
			for j, s := range batch {
				o := results[j].outcome
				if o != unknown {
					s.unsettled.Add(-1)
				}
				if o.known() { // also too late for this time: a member that is slow is to be reminded, too
					s.missing[i].Store(o == gone || o == notOurs)
				}
			}
			came <- memberResults{i, results}
		}()
	}
	return came
}

// extension returns how a lease stands by what members have said of it so far.
func (q *quorum) extension(vs verdicts) outcome {
	var said [gone + 1]int
	for _, r := range vs {
		said[r.outcome]++
	}
	extended := said[done] + said[doneInterrupted]
	switch {
	case extended >= q.majority && said[doneInterrupted] > 0:
		return doneInterrupted
	case extended >= q.majority:
		return done
	case q.denied(said[notOurs]+said[gone]) && said[notOurs] > 0: // if another has the key, one of them says so
		return notOurs
	case q.denied(said[gone]):
		return gone
	default:
		return unknown
	}
}
