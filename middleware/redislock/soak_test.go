//go:build soak

package redislock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// A million keys that are used once leave nothing in the process, and nothing
// in Redis once their TTLs have passed.
//
// A tenth of them goes through the Locker, in less than the minute for which the
// first of them is remembered. The rest would take longer there, under the race
// detector, and the first would be gone before the last: for those the commands
// that the Locker sends for a key are recorded and sent again, with other names.
func TestMillionOneOffKeys(t *testing.T) {
	const (
		all     = 1_000_000
		locked  = all / 10
		ttl     = 2 * time.Second
		expired = ttl + time.Minute + 30*time.Second // Redis removes what has expired when it gets round to it
	)
	server := redistest.Start(t)
	l := open(t, server.Client())
	monitor := server.Monitor(t)
	for range 2 { // the first time the scripts are sent whole
		require.NoError(t, acquire(t, l, "recorded", lock.Options{TTL: ttl}).Release(t.Context()))
	}
	commands := monitor.Stop().TopLevel().Named("evalsha")
	require.Len(t, commands, 2, "acquire and release")

	useOnce(t, l, locked/10, ttl)
	before := measureFootprint()
	start := time.Now()
	useOnce(t, l, locked, ttl)
	took := time.Since(start)
	t.Logf("%d keys in %v", locked, took)
	require.Less(t, took, time.Minute)
	measureFootprint().requireFlat(t, before, 1<<20) // ten bytes a key

	start = time.Now()
	const batch = 1000
	for first := locked; first < all; first += batch {
		replies, err := server.Client().Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for i := range batch {
				for _, c := range commands {
					p.Do(t.Context(), renamed(c, fmt.Sprint("key", first+i))...)
				}
			}
			return nil
		})
		require.NoError(t, err)
		for i := 0; i < len(replies); i += 2 {
			acquired, _ := replies[i].(*redis.Cmd).Int64Slice()
			released, _ := replies[i+1].(*redis.Cmd).Int64()
			if len(acquired) != 2 || acquired[0] != 1 || released != 1 {
				require.Fail(t, "not what the Locker expects", replies[i:i+2])
			}
		}
	}
	t.Logf("%d keys in %v", all-locked, time.Since(start))

	var keys, expire int
	space, err := server.Client().InfoMap(t.Context(), "keyspace").Result()
	require.NoError(t, err)
	_, err = fmt.Sscanf(space["Keyspace"]["db0"], "keys=%d,expires=%d", &keys, &expire)
	require.NoError(t, err)
	require.Greater(t, keys, all/2)
	require.Equal(t, keys, expire, "keys that never expire")
	require.Empty(t, server.Keys("*}:[^f]*"), "what is no fence")

	start = time.Now()
	require.Eventually(t, func() bool {
		n, err := server.Client().DBSize(t.Context()).Result()
		return err == nil && n == 0
	}, expired, 100*time.Millisecond)
	t.Logf("%d keys gone in %v", keys, time.Since(start))
}

// Two hundred callers that wait for other processes cost next to nothing, at the
// default TTL.
func TestTwoHundredIdleWaiters(t *testing.T) {
	const n, idle = 200, time.Minute
	server := redistest.Start(t)
	holder, waiter := open(t, server.Client()), startPod(t, server, lock.DefaultTTL)
	var leases []lock.Lease
	var answers []<-chan answer
	for i := range n {
		key := fmt.Sprint("key", i)
		leases = append(leases, acquire(t, holder, key, lock.Options{}))
		answers = append(answers, waiter.post(t.Context(), key, 0))
	}
	require.Eventually(t, func() bool { return len(server.Keys("*:queue")) == n }, patience, 10*time.Millisecond)
	before := waiter.cpu(t)
	pause(idle)
	used := waiter.cpu(t) - before
	t.Logf("%.2f %% of a core", 100*used.Seconds()/idle.Seconds())
	require.Less(t, used, idle*2/100)
	for i := range n {
		require.NoError(t, leases[i].Release(t.Context()))
		require.Equal(t, http.StatusOK, (<-answers[i]).status)
	}
}

// For a minute three pods contend for a key, and pass it on inside; every few
// seconds one is killed while it holds it or just after, and comes back. In the
// ledger of what they did each holder starts with a greater fence than all before,
// and ends before the next one starts.
func TestLedgerThroughKills(t *testing.T) {
	const ttl, callers = 500 * time.Millisecond, 8
	server := redistest.Start(t)
	pods := []*pod{startPod(t, server, ttl), startPod(t, server, ttl), startPod(t, server, ttl)}
	minute, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var served atomic.Int64
	kills := 0
	for minute.Err() == nil {
		round, end := context.WithCancel(minute)
		var all sync.WaitGroup
		for _, p := range pods {
			for range callers {
				all.Go(func() {
					for round.Err() == nil {
						if a := <-p.post(round, "key", time.Millisecond); a.err == nil {
							assert.Equal(t, http.StatusOK, a.status, a.body)
							served.Add(1)
						} else {
							pause(10 * time.Millisecond) // it is dead, or the round is over
						}
					}
				})
			}
		}
		pause(2*time.Second + rand.N(time.Second))
		victim := rand.IntN(len(pods))
		pods[victim].Kill()
		kills++
		pause(ttl + time.Second) // the others go on
		end()
		all.Wait()
		pods[victim].Restart()
		pods[victim].listening()
	}
	ledger := server.Client().LRange(t.Context(), "ledger:key", 0, -1).Val()
	require.Greater(t, len(ledger), 1000)
	passed, newest, notes := 0, uint64(0), 0
	for _, entry := range ledger {
		fence, err := strconv.ParseUint(entry, 10, 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, fence, newest)
		if fence == newest {
			notes++
			require.LessOrEqual(t, notes, 2, "one holder's start and end")
			continue
		}
		if fence == newest+1 {
			passed++
		}
		newest, notes = fence, 1
	}
	t.Logf("%d served, %d kills, %d passed on", served.Load(), kills, passed)
	require.Greater(t, passed, len(ledger)/8)
}

// renamed returns a recorded command for another key.
func renamed(c redistest.Call, key string) []any {
	args := make([]any, len(c.Args))
	for i, arg := range c.Args {
		args[i] = strings.ReplaceAll(arg, "{recorded}", "{"+key+"}")
	}
	return args
}

// Masters of a quorum come and go, never more than two of five at a time, on lines that
// are cut and fall silent: exclusion holds, fences rise, nobody is turned away.
func TestQuorumComesAndGoes(t *testing.T) {
	const ttl = 2 * time.Second
	servers := redistest.StartMasters(t, 5)
	lines, addrs := quorumLines(t, servers)
	pods := []*redislock.Locker{openQuorum(t, addrs), openQuorum(t, addrs), openQuorum(t, addrs)}
	w := startLoad(t, ttl, []string{"a", "b"}, pods...)
	w.awaitServed()
	for minute, round := time.Now(), 0; time.Since(minute) < time.Minute; round++ {
		i, j := round%5, (round+2)%5
		switch round % 4 {
		case 0:
			lines[i].BlackHole(true)
			lines[j].DropReplies(true)
		case 1:
			lines[i].Delay(20 * time.Millisecond)
			lines[j].CutAll()
		case 2:
			servers[i].Restart()
		case 3:
			lines[i].Refuse(true)
			lines[j].CutAll()
		}
		pause(500 * time.Millisecond)
		for _, line := range lines {
			line.BlackHole(false)
			line.DropReplies(false)
			line.Delay(0)
			line.Refuse(false)
		}
		pause(2 * ttl) // by then a restarted one votes again
		w.awaitServed()
	}
	w.end(nil)
	require.Zero(t, w.down)
}

// A master that was replaced is forgotten in the end, with what was open to it. That holds
// up nothing: the next failover is noticed as the first was.
func TestClusterForgetsMasters(t *testing.T) {
	const ttl = 2 * time.Second
	cluster := redistest.StartCluster(t)
	l, peer := open(t, cluster.Client()), open(t, cluster.Client())
	for round := range 2 {
		old := cluster.Masters()[round]
		key := cluster.Key(old, "k")
		lease := acquire(t, peer, key, lock.Options{TTL: ttl})
		waiter := acquireKeyLater(t.Context(), l, key, lock.Options{TTL: ttl, Wait: patience})
		awaitKeyQueued(t, old, key, 1) // it listens at this master
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, requireGranted(t, waiter, soon).Release(t.Context()))
		requireReplicated(t, old)
		old.Kill()
		cluster.AwaitOwner(key, old)
		require.NoError(t, acquireBack(t, l, key, ttl).Release(t.Context()))
		if round == 0 {
			pause(80 * time.Second) // a minute, and until it looks again
		}
	}
}
