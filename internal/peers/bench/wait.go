package main

import (
	"context"
	"time"
)

// keep locks the key, says so, and holds it until it is told to end.
func (w *worker) keep() {
	<-w.words
	w.lock(context.Background(), 0, func() {
		w.say("start")
		w.count()
		<-w.words
	})
}

// wait asks for the key while another worker keeps it.
func (w *worker) wait() {
	<-w.words
	ctx, cancel := context.WithTimeout(context.Background(), w.Settle+w.Time+w.Patience)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.lock(ctx, 0, func() {})
	}()
	w.count()
	w.say("counted")
	<-done
}

// count counts the commands sent while the worker keeps, or waits for, a key.
func (w *worker) count() {
	start := w.wire.sent.Load()
	time.Sleep(w.Settle)
	sent, pings := w.wire.sent.Load(), w.wire.pings.Load()
	time.Sleep(w.Time)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Before = sent - start
	w.report.Sent = w.wire.sent.Load() - sent
	w.report.Pings = w.wire.pings.Load() - pings
}

// waiting measures what it costs to wait, for one process and one key.
func waiting(ctx context.Context, b *bench, p peer) (s sample, err error) {
	w := b.task(p, "wait")
	w.Keys, w.Goroutines, w.Settle, w.Time = 1, 1, b.scale.settle, b.scale.waiting
	k := w
	k.Load = "keep"
	if !p.renews {
		k.TTL += b.scale.settle + b.scale.waiting // or it would hold the key no longer
	}
	err = b.run(ctx, []task{k, w}, func(ctx context.Context, workers *crew) error {
		workers.tell(0, "go")
		if _, err := workers.next(ctx, "start"); err != nil {
			return err
		}
		workers.tell(1, "go")
		if _, err := workers.next(ctx, "counted"); err != nil {
			return err
		}
		workers.tell(0, "end")
		reports, err := workers.reports(ctx)
		if err != nil {
			return err
		}
		s.check(reports)
		perSecond := func(n int64) float64 { return float64(n) / w.Time.Seconds() }
		keeper, waiter := reports[0], reports[1]
		s.figures = []float64{perSecond(waiter.Sent), float64(waiter.Before), perSecond(waiter.Pings), perSecond(keeper.Sent)}
		return nil
	})
	return s, err
}
