package peers_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// Tests that mostly wait run in parallel. The crowd and the compiler run alone:
// ExtensionOutlastsLease relies on the hundredth of a TTL by which our lease ends
// before Redis' does.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = 10 * time.Second // for what must happen, however slow the machine
	longTTL  = time.Minute      // longer than any test: it frees nothing
)

// lockKey is where redislock keeps the lock of "key". redsync's is at "key".
const lockKey = "reqlock:{key}:lock"

func start(t *testing.T) (*redistest.Server, *redistest.Proxy) {
	server := redistest.Start(t)
	return server, redistest.NewProxy(t, server.Addr())
}

func dial(t *testing.T, addr string, o redis.Options) *redis.Client {
	o.Addr = addr
	client := redis.NewClient(&o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// newRedsync returns redsync as its documentation sets it up, with a connection
// open already.
func newRedsync(t *testing.T, client *redis.Client) *redsync.Redsync {
	t.Helper()
	rs := redsync.New(goredis.NewPool(client))
	warm := rs.NewMutex("warm")
	require.NoError(t, warm.Lock())
	_, err := warm.Unlock()
	require.NoError(t, err)
	return rs
}

// newRedislock returns a Locker, with a connection open already.
func newRedislock(t *testing.T, client *redis.Client) *redislock.Locker {
	t.Helper()
	l, err := redislock.New(client, redislock.WithObserver(func(context.Context, lock.Event) {}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	return l
}

func acquire(t *testing.T, l lock.Locker, key string, o lock.Options) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key, o)
	require.NoError(t, err)
	return lease
}

func requireTaken(t *testing.T, err error) {
	t.Helper()
	var taken *redsync.ErrTaken
	require.ErrorAs(t, err, &taken)
}

// begin makes a call on a goroutine of its own. Its result must be taken.
func begin(call func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	return result
}

// requireResult waits for the result of a call, for d at most.
func requireResult(t *testing.T, result <-chan error, d time.Duration) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(d):
		require.Fail(t, "no result", "after %v", d)
		return nil
	}
}

// returned reports whether a call has a result.
func returned(result <-chan error) bool { return len(result) > 0 }
