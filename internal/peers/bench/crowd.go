package main

import (
	"context"
	"sync"
	"time"
)

// crowd has all goroutines ask for one key at once, each of them once. Whoever is
// not served in time is no failure.
func (w *worker) crowd() {
	<-w.words
	before := w.wire.sent.Load()
	start := time.Now()
	var answered, all sync.WaitGroup
	answered.Add(w.Goroutines)
	for range w.Goroutines {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), w.Time)
			defer cancel()
			t, err := w.take(ctx, 0)
			answered.Done()
			switch {
			case err == nil:
				time.Sleep(w.Hold)
				w.give(t)
			case ctx.Err() == nil:
				w.fail(err)
			}
		})
	}
	answered.Wait()
	w.report.Took = time.Since(start)
	all.Wait()
	w.report.Sent = w.wire.sent.Load() - before
}

// crowding measures what becomes of many who want one key, and have few
// connections to ask for it.
func crowding(ctx context.Context, b *bench, p peer) (s sample, err error) {
	t := b.task(p, "crowd")
	t.Keys, t.Goroutines, t.Pool = 1, b.scale.crowd, 10
	t.Hold, t.Time = time.Millisecond, b.scale.crowded
	err = b.run(ctx, []task{t}, func(ctx context.Context, workers *crew) error {
		workers.tell(0, "go")
		reports, err := workers.reports(ctx)
		if err != nil {
			return err
		}
		holds, r := s.check(reports), reports[0]
		var late, unlocks []float64
		for _, w := range r.GivenUp {
			if over := w - t.Time.Nanoseconds(); over >= 0 {
				late = append(late, milliseconds(over))
			}
		}
		for _, h := range holds {
			unlocks = append(unlocks, milliseconds(h.Freed-h.To))
		}
		served := float64(len(holds))
		s.figures = []float64{
			100 * served / float64(t.Goroutines), r.Took.Seconds(),
			quantile(late, 1), quantile(unlocks, 1), float64(r.Sent) / served,
		}
		return nil
	})
	return s, err
}
