package main

import (
	"context"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// leases takes all keys, says so, and holds them while commands are counted and
// until it is told to end.
func (w *worker) leases() {
	<-w.words
	// No deadline: the lock of a peer may end with its context.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	late := time.AfterFunc(w.Patience, cancel)
	start := time.Now()
	all := make([]taken, w.Keys)
	w.each(func(key int) {
		var err error
		if all[key], err = w.take(ctx, key); err != nil {
			w.fail(err)
		}
	})
	late.Stop()
	w.report.Took = time.Since(start)
	w.say("start")
	<-w.words
	used := cpu()
	w.count()
	w.report.CPU = cpu() - used
	w.report.Goroutines = runtime.NumGoroutine()
	w.say("counted")
	<-w.words
	for _, t := range all {
		if t.held != nil && t.held.Err() != nil {
			w.report.Lost++
		}
	}
	w.each(func(key int) {
		if all[key].held != nil {
			w.give(all[key])
		}
	})
}

// each does something with every key, on all goroutines.
func (w *worker) each(do func(key int)) {
	var all sync.WaitGroup
	for g := range w.Goroutines {
		all.Go(func() {
			for key := g; key < w.Keys; key += w.Goroutines {
				do(key)
			}
		})
	}
	all.Wait()
}

// cpu returns how much of it this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// holding measures what it costs to hold many keys for longer than their TTL.
func holding(ctx context.Context, b *bench, p peer) (s sample, err error) {
	t := b.task(p, "leases")
	t.Keys, t.Goroutines, t.Time = b.scale.leases, 64, b.scale.held
	t.Patience = 30 * time.Second // all are taken one after the other
	err = b.run(ctx, []task{t}, func(ctx context.Context, workers *crew) error {
		workers.tell(0, "go")
		if _, err := workers.next(ctx, "start"); err != nil {
			return err
		}
		before, err := b.server.calls(ctx)
		if err != nil {
			return err
		}
		workers.tell(0, "go")
		if _, err := workers.next(ctx, "counted"); err != nil {
			return err
		}
		after, err := b.server.calls(ctx)
		if err != nil {
			return err
		}
		workers.tell(0, "end")
		reports, err := workers.reports(ctx)
		if err != nil {
			return err
		}
		leases, r := float64(len(s.check(reports))), reports[0]
		perLease := func(n int64) float64 { return float64(n) / leases / t.Time.Seconds() }
		s.figures = []float64{
			float64(r.Lost), perLease(r.Sent), perLease(after - before),
			100 * r.CPU.Seconds() / t.Time.Seconds(), float64(r.Goroutines) / leases, r.Took.Seconds(),
		}
		return nil
	})
	return s, err
}
