package join_test

import (
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// gather has n requests follow a stream until all of them have the same number of bytes
// of it, and it stops. finish ends it, and returns when all have left.
func gather(guard func(http.Handler) http.Handler, n, bytes int) (finish func()) {
	var there, everyone sync.WaitGroup // have so many bytes; have left
	leads, stopped := make(chan struct{}), make(chan struct{})
	handler := guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := make([]byte, 1<<10)
		close(leads)
		for range bytes / len(token) {
			_, _ = w.Write(token)
			w.(http.Flusher).Flush()
		}
		<-stopped
	}))
	enter := func() {
		there.Add(1)
		left := bytes
		r, w := ask("/"), &light{header: make(http.Header)}
		w.wrote = func(n int) {
			if left -= n; left == 0 {
				there.Done()
			}
		}
		everyone.Go(func() { handler.ServeHTTP(w, r) })
	}
	enter()
	<-leads
	for range n {
		enter()
	}
	there.Wait()
	return func() { close(stopped); everyone.Wait() }
}

// memory is what is in use.
type memory struct{ heap, stacks int64 }

func (m memory) all() int64 { return m.heap + m.stacks }

func inUse() memory {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // finds what the first has let go of
	runtime.ReadMemStats(&m)
	return memory{int64(m.HeapAlloc), int64(m.StackInuse)}
}

// held is what a leader and its followers have in memory in the middle of a stream.
func held(guard func(http.Handler) http.Handler, followers, bytes int) memory {
	before := inUse()
	finish := gather(guard, followers, bytes)
	after := inUse()
	finish()
	return memory{after.heap - before.heap, after.stacks - before.stacks}
}

// A follower costs little more than its goroutine, the request and the writer that it
// comes with included, however long the response is.
func TestFollowersAreSmall(t *testing.T) {
	const followers, short, long = 1000, 100 << 10, 500 << 10
	held(joining(), followers, short) // what goroutines leave behind for the next ones is there
	alone := held(joining(), 0, short)
	all := held(joining(), followers, short)
	longer := held(joining(), followers, long)
	each := (all.all() - alone.all()) / followers
	t.Logf("%+v alone, %+v with %d followers: %d bytes each; %+v when longer", alone, all, followers, each, longer)
	assert.LessOrEqual(t, each, int64(16<<10))
	assert.InDelta(t, long-short, longer.heap-all.heap, short, "the response is there once")
}

// Two commands are what the leader takes its key with, and gives it back.
func TestFollowersAskRedisNothing(t *testing.T) {
	const requests = 200
	server := redistest.Start(t)
	locks, err := redislock.New(server.Client())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, locks.Close()) })
	guard := httplock.New(locks, byUser, middleware.WithJoin(join.New(nil)))
	lease, err := locks.Acquire(t.Context(), "other", lock.Options{}) // connections are open and scripts known from here on
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))

	monitor := server.Monitor(t)
	var runs, got atomic.Int32
	all := make(chan struct{})
	handler := guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		runs.Add(1)
		_, _ = w.Write([]byte(strings.Repeat("x", 10)))
		w.(http.Flusher).Flush()
		<-all
	}))
	var everyone sync.WaitGroup
	for range requests {
		w := &light{header: make(http.Header)}
		w.wrote = func(int) {
			if got.Add(1) == requests {
				close(all)
			}
		}
		r := ask("/")
		everyone.Go(func() { handler.ServeHTTP(w, r) })
	}
	everyone.Wait()
	require.EqualValues(t, 1, runs.Load())
	calls := monitor.Stop().TopLevel()
	own := []string{"info", "ping"} // which the Locker sends once, when it likes
	asked := slices.DeleteFunc(calls.Names(), func(name string) bool { return slices.Contains(own, name) })
	require.Equal(t, []string{"evalsha", "evalsha"}, asked, "%v", calls)
}
