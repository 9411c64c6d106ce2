package redislock_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

const outageTTL = 3 * time.Second

// requireOutage requires that callers of l are told within a second of an outage that
// has just begun, and those who come later at once.
func requireOutage(t *testing.T, l *redislock.Locker) {
	t.Helper()
	start := time.Now()
	_, err := l.Acquire(t.Context(), "first", lock.Options{TTL: outageTTL, Wait: time.Minute})
	requireUnavailable(t, err, time.Since(start))
	requireOutageKnown(t, l)
}

func requireOutageKnown(t *testing.T, l *redislock.Locker) {
	t.Helper()
	asks := map[string]func() error{
		"wait": func() error {
			_, err := l.Acquire(t.Context(), "key", lock.Options{TTL: outageTTL, Wait: time.Minute})
			return err
		},
		"try":       func() error { _, err := l.Acquire(t.Context(), "key", lock.Options{TTL: outageTTL}); return err },
		"interrupt": func() error { _, err := l.Interrupt(t.Context(), "key"); return err },
	}
	for name, ask := range asks {
		var took []time.Duration
		for range 40 {
			start := time.Now()
			err := ask()
			took = append(took, time.Since(start))
			requireUnavailable(t, err, took[len(took)-1])
		}
		slices.Sort(took)
		require.Less(t, took[35], 5*time.Millisecond, "%s: %v", name, took) // a busy machine may hold up a few
	}
}

// An outage costs one second once, whatever the kind of Redis: then callers are told
// at once, until it is over, which is noticed without anybody asking.
func TestL23_AnOutageCostsOnce(t *testing.T) {
	single := func(f failure) func(*testing.T) (*redislock.Locker, func(), func()) {
		return func(t *testing.T) (*redislock.Locker, func(), func()) {
			b := startBackend(t)
			return open(t, dial(t, b.line.Addr())), func() { f.begin(t, b) }, func() { f.over(t, b) }
		}
	}
	topologies := map[string]func(*testing.T) (l *redislock.Locker, begin, over func()){
		"killed":       single(killed),
		"stopped":      single(stopped),
		"refused":      single(refused),
		"black hole":   single(blackHole),
		"replies lost": single(noReplies),
		"too slow":     single(failure{"", func(_ *testing.T, b backend) { b.line.Delay(time.Second) }, func(_ *testing.T, b backend) { b.line.Delay(0) }}),
		"sentinel": func(t *testing.T) (*redislock.Locker, func(), func()) {
			sentinel := redistest.StartSentinel(t)
			far := proxiesOf(t, append(addrsOf(sentinel.Servers()), sentinel.Addrs()...)...)
			l := open(t, sentinel.Client(func(o *redis.FailoverOptions) { o.Dialer = far.dial }))
			return l, func() { far.blackHole(true) }, func() { far.blackHole(false) }
		},
		"cluster": func(t *testing.T) (*redislock.Locker, func(), func()) {
			cluster := redistest.StartCluster(t)
			far := proxiesOf(t, cluster.Addrs()...)
			l := open(t, cluster.Client(func(o *redis.ClusterOptions) { o.Dialer = far.dial }))
			for _, key := range []string{"first", "key"} { // of two masters
				require.NoError(t, acquire(t, l, key, lock.Options{}).Release(t.Context()))
			}
			return l, func() {
				far.blackHole(true)
				_, _ = l.Acquire(t.Context(), "key", lock.Options{}) // each master costs it once
			}, func() { far.blackHole(false) }
		},
		"quorum": func(t *testing.T) (*redislock.Locker, func(), func()) {
			addrs := addrsOf(redistest.StartMasters(t, 3))
			away := proxiesOf(t, addrs[:2]...)
			l := openQuorum(t, []string{away[addrs[0]].Addr(), away[addrs[1]].Addr(), addrs[2]})
			return l, func() { away.blackHole(true) }, func() { away.blackHole(false) }
		},
	}
	for name, start := range topologies {
		t.Run(name, func(t *testing.T) {
			l, begin, over := start(t)
			require.NoError(t, acquire(t, l, "first", lock.Options{TTL: outageTTL}).Release(t.Context()))
			begin()
			requireOutage(t, l)
			over()
			within := 2 * time.Second
			if name == "killed" {
				within += outageTTL // for which keys are kept back
			}
			require.Eventually(t, func() bool {
				lease, err := l.Acquire(t.Context(), "key", lock.Options{TTL: outageTTL, Wait: patience})
				return err == nil && assert.NoError(t, lease.Release(t.Context()))
			}, within, time.Millisecond)
		})
	}
}

// A process that starts in an outage of a Cluster, of which it knows nothing yet.
func TestClusterOutageFromTheStart(t *testing.T) {
	cluster := redistest.StartCluster(t)
	far := proxiesOf(t, cluster.Addrs()...)
	far.blackHole(true)
	seen := new(guardtest.Events)
	l := open(t, cluster.Client(func(o *redis.ClusterOptions) { o.Dialer = far.dial }), redislock.WithObserver(seen.Observe))
	requireOutage(t, l)
	far.blackHole(false)
	guardtest.Await[lock.BackendRecovered](t, seen)
	require.NoError(t, acquire(t, l, "key", lock.Options{}).Release(t.Context()))
	assert.Len(t, guardtest.Of[lock.BackendFailed](seen), 1)
}

// A quorum does without a member that does not answer, and is not held up by it.
func TestQuorumWithoutAMember(t *testing.T) {
	addrs := addrsOf(redistest.StartMasters(t, 3))
	away := proxiesOf(t, addrs[0])
	seen := new(guardtest.Events)
	l := openQuorum(t, []string{away[addrs[0]].Addr(), addrs[1], addrs[2]}, redislock.WithObserver(seen.Observe))
	crowd(t, l, 10)
	away.blackHole(true)
	crowd(t, l, 10)
	guardtest.Await[lock.BackendFailed](t, seen)
	crowd(t, l, 10)
	away.blackHole(false)
	guardtest.Await[lock.BackendRecovered](t, seen)
}

// Whoever waits when an outage is noticed is told then: behind a holder in another
// process, behind one in its own, and behind others of its own.
func TestL23_WhoWaitsIsToldOfAnOutage(t *testing.T) {
	b := startBackend(t)
	l, peer := open(t, dial(t, b.line.Addr())), open(t, b.Client())
	theirs, ours := acquire(t, peer, "theirs", lock.Options{}), acquire(t, l, "ours", lock.Options{})
	told := make(chan time.Time, 20)
	for i := range cap(told) {
		go func() {
			_, err := l.Acquire(t.Context(), []string{"theirs", "ours"}[i%2], lock.Options{Wait: time.Minute})
			assert.ErrorIs(t, err, lock.ErrUnavailable)
			told <- time.Now()
		}()
	}
	requireListens(t, b.Server, "theirs")

	blackHole.begin(t, b)
	start := time.Now()
	_, err := l.Acquire(t.Context(), "another", lock.Options{})
	requireUnavailable(t, err, time.Since(start))
	noticed := time.Now()
	for range cap(told) {
		select {
		case at := <-told:
			require.Less(t, at.Sub(noticed), 750*time.Millisecond) // a probe has to fail as well
		case <-time.After(patience):
			require.Fail(t, "somebody still waits")
		}
	}

	// Of their own holders they hear nothing, and take nothing away.
	require.NoError(t, ours.Context().Err())
	start = time.Now()
	require.ErrorIs(t, ours.Release(t.Context()), lock.ErrUnavailable)
	require.Less(t, time.Since(start), 250*time.Millisecond, "the rest is done in the background")
	blackHole.over(t, b)
	require.NoError(t, acquire(t, peer, "ours", lock.Options{Wait: lock.DefaultTTL / 2}).Release(t.Context()))
	require.NoError(t, theirs.Release(t.Context()))
	require.Eventually(t, func() bool {
		lease, err := l.Acquire(t.Context(), "theirs", lock.Options{Wait: patience})
		return err == nil && assert.NoError(t, lease.Release(t.Context()))
	}, patience, time.Millisecond)
}

// The operator reads that an outage is over also where nobody asks.
func TestOutageEndsByItself(t *testing.T) {
	b := startBackend(t)
	seen := new(guardtest.Events)
	l := open(t, dial(t, b.line.Addr()), redislock.WithObserver(seen.Observe))
	require.NoError(t, acquire(t, l, "key", lock.Options{TTL: outageTTL}).Release(t.Context()))
	killed.begin(t, b)
	requireOutage(t, l)
	require.Len(t, guardtest.Of[lock.BackendFailed](seen), 1)
	killed.over(t, b)
	over := time.Now()
	recovered := guardtest.Await[lock.BackendRecovered](t, seen)
	require.Less(t, time.Since(over), 3*time.Second)
	require.Equal(t, "redis at "+b.line.Addr(), recovered.Backend)
	require.Len(t, guardtest.Of[lock.BackendFailed](seen), 1)

	// It may have forgotten holders.
	kept := guardtest.Of[lock.KeptBack](seen)
	require.Len(t, kept, 1)
	require.Equal(t, recovered.Backend, kept[0].Backend)
	require.InDelta(t, outageTTL, kept[0].For, float64(2*time.Second))
	for name, wait := range map[string]time.Duration{"a try": 0, "too short a wait": 500 * time.Millisecond} {
		start := time.Now()
		_, err := l.Acquire(t.Context(), "key", lock.Options{TTL: outageTTL, Wait: wait})
		requireUnavailable(t, err, time.Since(start))
		var until *lock.UnavailableError
		require.ErrorAs(t, err, &until, name)
		require.Less(t, until.After, outageTTL)
		require.Greater(t, until.After, 500*time.Millisecond)
		require.Less(t, time.Since(start), 250*time.Millisecond, "%s: there is no point in waiting", name)
	}
	require.NoError(t, acquire(t, l, "key", lock.Options{TTL: outageTTL, Wait: patience}).Release(t.Context()))
}

// requireListens waits until one caller, in whatever process, waits for a key and hears
// of a grant, and has nothing to ask.
func requireListens(t *testing.T, server *redistest.Server, key string) {
	t.Helper()
	require.Eventually(t, func() bool {
		entries := server.Client().HVals(t.Context(), "reqlock:{"+key+"}:entries").Val()
		return len(entries) == 1 && strings.Contains(entries[0], "reqlock:inbox:")
	}, patience, time.Millisecond)
}

// tryFree says whether a key that nobody has can be had.
func tryFree(t *testing.T, l *redislock.Locker) bool {
	lease, err := l.Acquire(t.Context(), "free", lock.Options{TTL: outageTTL})
	return err == nil && assert.NoError(t, lease.Release(t.Context()))
}

// Most members of a quorum were restarted, and what they say of a key that nobody holds
// is that it is kept back, not that it is another's.
func TestQuorumKeepsBack(t *testing.T) {
	servers := redistest.StartMasters(t, 3)
	l := openQuorum(t, addrsOf(servers))
	require.NoError(t, acquire(t, l, "key", lock.Options{TTL: outageTTL}).Release(t.Context()))
	servers[0].Restart()
	servers[1].Restart()
	for _, wait := range []time.Duration{0, 100 * time.Millisecond, time.Second} {
		_, err := l.Acquire(t.Context(), "key", lock.Options{TTL: outageTTL, Wait: wait})
		require.ErrorIs(t, err, lock.ErrUnavailable)
		var until *lock.UnavailableError
		require.ErrorAs(t, err, &until)
		require.Greater(t, until.After, outageTTL/4, wait)
	}
	require.NoError(t, acquire(t, l, "key", lock.Options{TTL: outageTTL, Wait: patience}).Release(t.Context()))
}

// Close is over in time also where nothing answers, and leaves nothing running: see
// TestMain.
func TestCloseInAnOutage(t *testing.T) {
	b := startBackend(t)
	single, err := redislock.New(dial(t, b.line.Addr()), unobserved)
	require.NoError(t, err)
	cluster := redistest.StartCluster(t)
	far := proxiesOf(t, cluster.Addrs()...)
	many, err := redislock.New(cluster.Client(func(o *redis.ClusterOptions) { o.Dialer = far.dial }), unobserved)
	require.NoError(t, err)
	for _, l := range []*redislock.Locker{single, many} {
		acquire(t, l, "held", lock.Options{})
	}
	blackHole.begin(t, b)
	far.blackHole(true)
	for _, l := range []*redislock.Locker{single, many} {
		go func() { _, _ = l.Acquire(context.Background(), "held", lock.Options{Wait: time.Minute}) }()
		requireOutage(t, l)
		start := time.Now()
		_ = l.Close()
		require.Less(t, time.Since(start), 5*time.Second)
	}
}

// A crowd that meets an outage does not dial for each of its callers, and does not come
// back all at once.
func TestOutageIsNoHerd(t *testing.T) {
	for _, outage := range []failure{
		refused,
		{"accepted and closed", killed.begin, killed.over}, // by the proxy
	} {
		t.Run(outage.name, func(t *testing.T) {
			b := startBackend(t)
			var dials atomic.Int32
			client := redis.NewClient(&redis.Options{Addr: b.line.Addr(), PoolSize: 10, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials.Add(1)
				return new(net.Dialer).DialContext(ctx, network, addr)
			}})
			t.Cleanup(func() { _ = client.Close() })
			l := open(t, client)
			require.Eventually(t, func() bool { return tryFree(t, l) }, patience, time.Millisecond)

			outage.begin(t, b)
			requireOutage(t, l)
			dials.Store(0)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var served, denied atomic.Int32
			var all sync.WaitGroup
			for i := range 200 {
				all.Go(func() {
					for ctx.Err() == nil {
						lease, err := l.Acquire(ctx, fmt.Sprint(i), lock.Options{TTL: outageTTL, Wait: patience})
						switch {
						case err == nil:
							served.Add(1)
							assert.NoError(t, lease.Release(ctx))
						case ctx.Err() == nil:
							denied.Add(1)
							assert.ErrorIs(t, err, lock.ErrUnavailable)
						}
						pause(10 * time.Millisecond)
					}
				})
			}
			pause(2 * time.Second)
			require.Greater(t, denied.Load(), int32(1000))
			require.Less(t, dials.Load(), int32(100), "in two seconds of probes")

			dials.Store(0)
			outage.over(t, b)
			require.Eventually(t, func() bool { return served.Load() > 200 }, patience, time.Millisecond)
			require.Less(t, dials.Load(), int32(40), "as many as there may be")
			cancel()
			all.Wait()
		})
	}
}

// A quorum one of whose members is away from the start is none the worse: who waits for a
// holder is not told of an outage.
func TestQuorumStartsWithoutAMember(t *testing.T) {
	addrs := addrsOf(redistest.StartMasters(t, 3))
	away := proxiesOf(t, addrs[0])
	proxy := away[addrs[0]]
	proxy.Refuse(true)
	for range 20 {
		l := openQuorum(t, []string{proxy.Addr(), addrs[1], addrs[2]})
		held := acquire(t, l, "key", lock.Options{})
		got := make(chan error, 1)
		go func() {
			lease, err := l.Acquire(t.Context(), "key", lock.Options{Wait: patience})
			if err == nil {
				err = lease.Release(t.Context())
			}
			got <- err
		}()
		pause(20 * time.Millisecond)
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, receive(t, got))
	}
	proxy.Refuse(false)
}
