package main

import (
	"context"
	"time"
)

// relay locks one key whenever it is told to, until it is told to end.
func (w *worker) relay() {
	for word := range w.words {
		if word == "end" {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), w.Patience)
		ok := w.lock(ctx, 0, func() { w.say("start"); time.Sleep(w.Hold) })
		cancel()
		if !ok {
			return
		}
	}
}

// handoff measures how long a key is idle between two processes that want it.
// Four have one waiter each, and who has released asks again only when the next
// one has started. So three wait at each release, and nobody passes the key to
// itself.
func handoff(ctx context.Context, b *bench, p peer) (s sample, err error) {
	t := b.task(p, "relay")
	t.Keys, t.Goroutines, t.Hold = 1, 1, 5*time.Millisecond
	err = b.run(ctx, []task{t, t, t, t}, func(ctx context.Context, workers *crew) error {
		reports, err := relayed(ctx, workers, b.scale.handoff)
		if err != nil {
			return err
		}
		gaps := handoffs(s.check(reports))
		s.figures = []float64{mean(gaps), quantile(gaps, 0.5), quantile(gaps, 0.99), quantile(gaps, 1), float64(len(gaps))}
		return nil
	})
	return s, err
}

// relayed lets workers relay for a time and returns their reports.
func relayed(ctx context.Context, workers *crew, d time.Duration) ([]report, error) {
	until := time.Now().Add(d)
	n := len(workers.inputs)
	for i := range n {
		workers.tell(i, "go")
	}
	ended := make(map[int]bool)
	end := func(i int) { workers.tell(i, "end"); ended[i] = true }
	reports := make([]report, n)
	holder := -1
	for left := n; left > 0; {
		e, err := workers.next(ctx, "start", "report")
		if err != nil {
			return nil, err
		}
		if e.Is == "report" {
			left--
			reports[e.from], ended[e.from] = e.Report, true
		} else {
			before := holder
			holder = e.from
			switch {
			case before < 0 || ended[before]:
			case time.Now().Before(until):
				workers.tell(before, "go")
			default:
				end(before)
			}
		}
		if holder >= 0 && len(ended) == n-1 && !ended[holder] { // there is no next one
			end(holder)
		}
	}
	return reports, nil
}
