package main

import (
	"cmp"
	"context"
	"time"
)

// A scenario is one table: a row for each peer that takes part, with the figures
// that measure returns.
type scenario struct {
	id      string
	title   string
	columns []column
	measure measurement
	limited bool // the limit has a row, too
	renewed bool // only for peers that renew
	once    bool // it counts what hardly varies: one run says all
}

type measurement func(context.Context, *bench, peer) (sample, error)

var scenarios = []scenario{
	{
		id:    "a",
		title: "distinct keys, one process: acquire and release, pairs/s by the number of goroutines",
		columns: []column{
			{head: "1", best: highest}, {head: "8", best: highest}, {head: "64", best: highest}, {head: "256", best: highest},
			{head: "sent/pair", digits: 2}, {head: "all/pair", digits: 2},
		},
		measure: distinct,
	},
	{
		id:      "b",
		title:   "one key, 3 processes × 16 goroutines, held for 1 ms; waits in ms",
		columns: contention,
		measure: contended(1, time.Millisecond),
		limited: true,
	},
	{
		id:      "c",
		title:   "8 keys, 3 processes × 16 goroutines, held for 5 ms; waits in ms",
		columns: contention,
		measure: contended(8, 5*time.Millisecond),
		limited: true,
	},
	{
		id:    "d",
		title: "hand-off, 4 processes with one waiter each: from a release to the start in another process, in ms",
		columns: []column{
			{head: "mean", digits: 3, best: lowest}, {head: "p50", digits: 3}, {head: "p99", digits: 3}, {head: "max", digits: 3, merge: highest},
			{head: "hand-offs"},
		},
		measure: handoff,
	},
	{
		id:    "e",
		title: "one process holds 10,000 keys for 60 s, TTL 10 s; commands while they are held",
		columns: []column{
			{head: "lost", merge: highest}, {head: "sent/lease·s", digits: 3, best: lowest}, {head: "all/lease·s", digits: 3},
			{head: "% of a core", digits: 1, best: lowest}, {head: "goroutines/lease", digits: 2}, {head: "taken in s", digits: 1},
		},
		measure: holding,
		renewed: true,
		once:    true,
	},
	{
		id:    "f",
		title: "5,000 callers at once, one process, pool of 10, one key held for 1 ms; each waits for 10 s at most",
		columns: []column{
			{head: "served %", digits: 1, best: highest}, {head: "last answer s", digits: 1},
			{head: "late ms", digits: 1, merge: highest}, {head: "unlock ms", digits: 1, merge: highest},
			{head: "sent/lock", digits: 2},
		},
		measure: crowding,
	},
	{
		id:    "g",
		title: "waiting for a key that another process holds, TTL 10 s: commands/s of one process",
		columns: []column{
			{head: "waiter", digits: 2, best: lowest}, {head: "to begin with"}, {head: "pings/s", digits: 2}, {head: "holder", digits: 2},
		},
		measure: waiting,
		once:    true,
	},
}

// contention are the columns of what contended measures. "p99÷turns" compares
// with the wait of who comes last where all are served in turn.
var contention = []column{
	{head: "locks/s", best: highest, limited: true},
	{head: "p50", digits: 1}, {head: "p99", digits: 1}, {head: "max", digits: 1, merge: highest}, {head: "p99÷turns", digits: 2},
	{head: "sent/lock", digits: 2}, {head: "all/lock", digits: 2},
	{head: "max÷min process", digits: 2},
}

// A column is one figure of a sample.
type column struct {
	head    string
	digits  int                     // behind the point
	merge   func([]float64) float64 // of the runs; nil: the median
	best    func([]float64) float64 // of the peers; the next column is the ratio to it
	limited bool                    // the column after that is the ratio to the limit
}

// A sample is what one run says of one peer.
type sample struct {
	figures  []float64 // in the order of the columns
	overlaps int       // see overlaps
	failures int       // of Lock and unlock
	failure  string    // one of them
}

// check adds what went wrong and returns the holds of all processes.
func (s *sample) check(reports []report) []hold {
	var all []hold
	for i, r := range reports {
		for _, h := range r.Holds {
			h.process = i
			all = append(all, h)
		}
		s.add(sample{failures: r.Failures, failure: r.Failure})
	}
	s.overlaps += overlaps(all)
	return all
}

// add adds what went wrong in another sample.
func (s *sample) add(o sample) {
	s.overlaps += o.overlaps
	s.failures += o.failures
	s.failure = cmp.Or(s.failure, o.failure)
}
