package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A hold is one acquisition of a key. Times are the machine's, in nanoseconds:
// they are compared across processes.
type hold struct {
	Key      int
	Asked    int64 // before Lock was called
	From, To int64 // when it returned, and before unlock was called
	Freed    int64 // when unlock returned
	process  int
}

// overlaps counts the holds that began while the key was held: From to To is
// less than what a lock was held for, so there is nothing to allow for.
func overlaps(holds []hold) int {
	holds = slices.SortedFunc(slices.Values(holds), func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.From, b.From))
	})
	n := 0
	for i, h := range holds {
		if i == 0 || h.Key != holds[i-1].Key {
			continue
		}
		if h.From < holds[i-1].To {
			n++
		}
		holds[i].To = max(h.To, holds[i-1].To)
	}
	return n
}

// handoffs returns how long a key was idle between two holders in different
// processes, in milliseconds.
func handoffs(holds []hold) []float64 {
	holds = slices.SortedFunc(slices.Values(holds), func(a, b hold) int { return cmp.Compare(a.From, b.From) })
	var gaps []float64
	for i, h := range holds {
		if i > 0 && h.process != holds[i-1].process {
			gaps = append(gaps, milliseconds(h.From-holds[i-1].To))
		}
	}
	return gaps
}

// between returns the holds that began between two times.
func between(holds []hold, from, to time.Time) []hold {
	return slices.DeleteFunc(slices.Clone(holds), func(h hold) bool {
		return h.From < from.UnixNano() || h.From >= to.UnixNano()
	})
}

func milliseconds(ns int64) float64 { return float64(ns) / float64(time.Millisecond) }

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// quantile is the least of the values that a share q of them does not exceed.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	return v[max(0, int(math.Ceil(q*float64(len(v))))-1)]
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

func highest(v []float64) float64 { return slices.Max(v) }

func lowest(v []float64) float64 { return slices.Min(v) }
