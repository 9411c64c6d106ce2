package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"
)

// A bench runs scenarios on one redis-server.
type bench struct {
	server *server
	times  times
}

// times are how long the scenarios take, for each peer, and how long after that
// those are waited for who wait then.
type times struct{ distinct, contended, handoff, settle, waiting, patience time.Duration }

var (
	thorough = times{2 * time.Second, 3 * time.Second, 3 * time.Second, time.Second, 20 * time.Second, 6 * time.Second}
	brief    = times{30 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond, 600 * time.Millisecond}
)

// task returns one with keys of its own.
func (b *bench) task(p peer, load string) task {
	return task{Peer: p.name, Redis: b.server.addr, TTL: ttl, NoLoop: b.server.noLoop(), Load: load, Patience: b.times.patience, Name: "bench:" + rand.Text()}
}

var errTooLong = errors.New("it takes too long")

// run has tasks done by workers, under the direction of do.
func (b *bench) run(ctx context.Context, tasks []task, do func(context.Context, *crew) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errTooLong)
	defer cancel()
	workers, err := hire(ctx, tasks...)
	if err != nil {
		return err
	}
	if err := do(ctx, workers); err != nil {
		cancel()
		_ = workers.close()
		return err
	}
	return workers.close()
}

// A row is a peer in a scenario, with a sample for each run.
type row struct {
	peer    peer
	samples []sample
}

// rows runs scenarios and returns, for each, a row for each peer.
func (b *bench) rows(ctx context.Context, c config, progress io.Writer) ([][]row, error) {
	all := make([][]row, len(c.scenarios))
	for i, s := range c.scenarios {
		for _, p := range c.peers {
			all[i] = append(all[i], row{peer: p})
		}
		if s.limited {
			all[i] = append(all[i], row{peer: limit})
		}
	}
	for run := range c.runs {
		for i, s := range c.scenarios {
			if s.once && run > 0 {
				continue
			}
			for j := range all[i] {
				// Another one begins in each run.
				r := &all[i][(j+run)%len(all[i])]
				fmt.Fprintf(progress, "run %d of %d: %s, %s\n", run+1, c.runs, s.id, r.peer.name)
				sample, err := s.measure(ctx, b, r.peer)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", s.id, r.peer.name, err)
				}
				r.samples = append(r.samples, sample)
			}
		}
	}
	return all, nil
}
