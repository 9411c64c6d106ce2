package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// contend locks and unlocks for as long as the task says. Who waits by then is
// served still: it is those who wait for long that count.
func (w *worker) contend() {
	<-w.words
	before := w.wire.sent.Load()
	end := time.Now().Add(w.Time)
	ctx, cancel := context.WithDeadline(context.Background(), end.Add(w.Patience))
	defer cancel()
	var all sync.WaitGroup
	for g := range w.Goroutines {
		all.Go(func() {
			for time.Now().Before(end) {
				key := rand.IntN(w.Keys)
				if w.OwnKeys {
					key += g * w.Keys
				}
				if !w.lock(ctx, key, func() { time.Sleep(w.Hold) }) {
					time.Sleep(time.Millisecond) // a failure is no reason to spin
				}
			}
		})
	}
	all.Wait()
	w.report.Sent = w.wire.sent.Load() - before
}

// An outcome is what became of workers that contended.
type outcome struct {
	sample
	holds     []hold // all
	givenUp   []int64
	timed     []hold // those that began in the time of the task
	sent, all int64  // commands
}

// contend runs tasks that contend. All have the same Time.
func (b *bench) contend(ctx context.Context, tasks ...task) (o outcome, err error) {
	err = b.run(ctx, tasks, func(ctx context.Context, workers *crew) error {
		before, err := b.server.calls(ctx)
		if err != nil {
			return err
		}
		start := time.Now()
		for i := range tasks {
			workers.tell(i, "go")
		}
		reports, err := workers.reports(ctx)
		if err != nil {
			return err
		}
		after, err := b.server.calls(ctx)
		if err != nil {
			return err
		}
		o.all = after - before
		for _, r := range reports {
			o.sent += r.Sent
			o.givenUp = append(o.givenUp, r.GivenUp...)
		}
		o.holds = o.check(reports)
		o.timed = between(o.holds, start, start.Add(tasks[0].Time))
		return nil
	})
	return o, err
}

// levels are how many goroutines lock distinct keys.
var levels = []int{1, 8, 64, 256}

// distinct measures what a lock costs that nobody else wants: locks per second
// at each level, commands sent and carried out for each lock.
func distinct(ctx context.Context, b *bench, p peer) (sample, error) {
	var s sample
	var locks, sent, all float64
	for _, n := range levels {
		t := b.task(p, "contend")
		t.Goroutines, t.OwnKeys, t.Keys = n, true, 16
		t.Time = b.scale.distinct
		o, err := b.contend(ctx, t)
		if err != nil {
			return s, err
		}
		s.figures = append(s.figures, rate(o.timed, t.Time))
		s.add(o.sample)
		locks += float64(len(o.holds))
		sent += float64(o.sent)
		all += float64(o.all)
	}
	s.figures = append(s.figures, sent/locks, all/locks)
	return s, nil
}

// contended returns a measurement of processes × 16 goroutines that want the
// same keys. See scenarios for its figures.
func contended(keys int, hold time.Duration) measurement {
	const processes, goroutines = 3, 16
	return func(ctx context.Context, b *bench, p peer) (sample, error) {
		t := b.task(p, "contend")
		t.Keys, t.Goroutines, t.Hold, t.Time = keys, goroutines, hold, b.scale.contended
		tasks := []task{t, t, t}
		if p.name == limit.name {
			t.Goroutines *= processes
			tasks = []task{t}
		}
		o, err := b.contend(ctx, tasks...)
		if err != nil {
			return o.sample, err
		}
		var waits, holds []float64
		for _, h := range o.holds {
			waits = append(waits, milliseconds(h.From-h.Asked))
			holds = append(holds, milliseconds(h.To-h.From))
		}
		for _, w := range o.givenUp {
			waits = append(waits, milliseconds(w))
		}
		shares := make([]float64, len(tasks))
		for _, h := range o.timed {
			shares[h.process]++
		}
		// What the last of all waits for, if each is served in turn.
		turns := (processes*goroutines/float64(keys) - 1) * mean(holds)
		locks := float64(len(o.holds))
		o.figures = []float64{
			rate(o.timed, t.Time),
			quantile(waits, 0.5), quantile(waits, 0.99), quantile(waits, 1), quantile(waits, 0.99) / turns,
			float64(o.sent) / locks, float64(o.all) / locks,
			slices.Max(shares) / slices.Min(shares),
		}
		return o.sample, nil
	}
}

func rate(holds []hold, d time.Duration) float64 { return float64(len(holds)) / d.Seconds() }
