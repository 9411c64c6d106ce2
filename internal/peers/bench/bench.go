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
	scale  scale
}

// A scale is how long the scenarios take, for each peer, and with how much.
type scale struct {
	distinct, contended, handoff time.Duration
	leases                       int
	held                         time.Duration
	crowd                        int
	crowded                      time.Duration // how long each of the crowd waits
	settle, waiting              time.Duration
	patience                     time.Duration // how long those are waited for who wait when it is over
}

var (
	thorough = scale{
		distinct: 2 * time.Second, contended: 3 * time.Second, handoff: 3 * time.Second,
		leases: 10_000, held: time.Minute,
		crowd: 5_000, crowded: 10 * time.Second,
		settle: time.Second, waiting: 20 * time.Second,
		patience: 6 * time.Second,
	}
	brief = scale{
		distinct: 30 * time.Millisecond, contended: 100 * time.Millisecond, handoff: 100 * time.Millisecond,
		leases: 200, held: 100 * time.Millisecond,
		crowd: 100, crowded: 300 * time.Millisecond,
		settle: 50 * time.Millisecond, waiting: 300 * time.Millisecond,
		patience: 600 * time.Millisecond,
	}
)

// task returns one with keys of its own.
func (b *bench) task(p peer, load string) task {
	return task{Peer: p.name, Redis: b.server.addr, TTL: ttl, NoLoop: b.server.noLoop(), Load: load, Patience: b.scale.patience, Name: "bench:" + rand.Text()}
}

var errTooLong = errors.New("it takes too long")

// run has tasks done by workers, under the direction of do.
func (b *bench) run(ctx context.Context, tasks []task, do func(context.Context, *crew) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errTooLong)
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

// rows runs scenarios and returns, for each, a row for each peer that takes part.
func (b *bench) rows(ctx context.Context, c config, progress io.Writer) ([][]row, error) {
	all := make([][]row, len(c.scenarios))
	for i, s := range c.scenarios {
		for _, p := range c.peers {
			if p.renews || !s.renewed {
				all[i] = append(all[i], row{peer: p})
			}
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
