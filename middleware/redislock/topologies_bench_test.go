package redislock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// BenchmarkTopologies measures, on each shape that Redis comes in, what an acquire and
// a release of a free key cost, and how long it takes from a release to the return of
// Acquire in another process that waits.
func BenchmarkTopologies(b *testing.B) {
	for _, topology := range []struct {
		name  string
		start func() (servers []*redistest.Server, process func() *redislock.Locker)
	}{
		{"single", func() ([]*redistest.Server, func() *redislock.Locker) {
			s := redistest.Start(b)
			return []*redistest.Server{s}, func() *redislock.Locker { return open(b, s.Client()) }
		}},
		{"sentinel", func() ([]*redistest.Server, func() *redislock.Locker) {
			s := redistest.StartSentinel(b)
			return s.Servers()[:1], func() *redislock.Locker { return open(b, s.Client()) }
		}},
		{"cluster", func() ([]*redistest.Server, func() *redislock.Locker) {
			c := redistest.StartCluster(b)
			return c.Masters(), func() *redislock.Locker { return open(b, c.Client()) }
		}},
		{"quorum of 3", func() ([]*redistest.Server, func() *redislock.Locker) {
			s := redistest.StartMasters(b, 3)
			return s, func() *redislock.Locker { return openQuorum(b, addrsOf(s)) }
		}},
		{"quorum of 5", func() ([]*redistest.Server, func() *redislock.Locker) {
			s := redistest.StartMasters(b, 5)
			return s, func() *redislock.Locker { return openQuorum(b, addrsOf(s)) }
		}},
	} {
		b.Run(topology.name, func(b *testing.B) {
			servers, process := topology.start()
			left, right := process(), process()
			b.Run("pair", func(b *testing.B) {
				pair := func() {
					lease, err := left.Acquire(b.Context(), "key", lock.Options{Wait: time.Second})
					if err != nil {
						b.Fatal(err)
					}
					if err := lease.Release(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				pair() // connections are open and scripts known from here on
				before := sent(servers)
				b.ReportAllocs()
				for b.Loop() {
					pair()
				}
				b.ReportMetric(float64(sent(servers)-before)/float64(b.N), "commands/op")
			})
			b.Run("hand-off", func(b *testing.B) {
				var took []time.Duration
				holder, waiter := left, right
				lease, err := holder.Acquire(b.Context(), "handed", lock.Options{})
				if err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					next := acquireKeyLater(b.Context(), waiter, "handed", lock.Options{Wait: time.Minute})
					awaitQueueAnywhere(b.Context(), servers, "handed")
					released := time.Now()
					if err := lease.Release(b.Context()); err != nil {
						b.Fatal(err)
					}
					g := <-next
					if g.err != nil {
						b.Fatal(g.err)
					}
					took = append(took, g.at.Sub(released))
					lease, holder, waiter = g.lease, waiter, holder
				}
				_ = lease.Release(b.Context())
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-median/hand-off")
				b.ReportMetric(float64(took[len(took)*95/100].Microseconds()), "µs-p95/hand-off")
			})
		})
	}
}

// sent counts the scripts that clients have had carried out.
func sent(servers []*redistest.Server) (n int64) {
	for _, s := range servers {
		for _, calls := range s.Commands("evalsha", "eval") {
			n += calls
		}
	}
	return n
}

// awaitQueueAnywhere waits until somebody waits for a key on most of those servers that
// have it.
func awaitQueueAnywhere(ctx context.Context, servers []*redistest.Server, key string) {
	for {
		has, waits := 0, 0
		for _, s := range servers {
			has += int(s.Client().Exists(ctx, lockKey(key)).Val())
			waits += int(s.Client().Exists(ctx, fmt.Sprintf("reqlock:{%s}:queue", key)).Val())
		}
		if has > 0 && waits > has/2 {
			return
		}
	}
}
