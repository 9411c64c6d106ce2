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
		go func() {
			defer q.asking.Done()
			ctx, cancel := context.WithTimeout(context.Background(), bound)
			defer cancel()
			came <- replies{i, on.extendEach(ctx, batch)}
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
		_, _ = s.mutex.ExtendContext(verdictsOf[i])
		if !q.locker.renewals.extended(s, start, q.extension(verdictsOf[i])) {
			lost = append(lost, s)
		}
	}
	q.locker.lose(lost)
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
