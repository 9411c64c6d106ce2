package redislock_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/locktest"
	"github.com/reqlock/reqlock/middleware/redislock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for what must happen, however slow the machine.
const patience = 10 * time.Second

func TestConformance(t *testing.T) {
	locktest.Run(t, func(t *testing.T) locktest.Fixture {
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr())
		return locktest.Fixture{
			Locker: open(t, dial(t, proxy.Addr())),
			Peer:   open(t, server.Client()),
			Lose: func(key string) {
				require.NoError(t, server.Client().Del(t.Context(), lockKey(key)).Err())
			},
			Break: func() { proxy.BlackHole(true) },
			Heal:  func() { proxy.BlackHole(false) },
		}
	})
}

// lockKey is the name of a lock in Redis whose key needs no escaping.
func lockKey(key string) string { return "reqlock:{" + key + "}:lock" }

var unobserved = redislock.WithObserver(func(context.Context, lock.Event) {})

// open returns a Locker that is closed when the test ends. Where no observer
// is among opts its events go nowhere.
func open(t testing.TB, client redis.UniversalClient, opts ...redislock.Option) *redislock.Locker {
	t.Helper()
	l, err := redislock.New(client, append([]redislock.Option{unobserved}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// dial returns a client that is closed when the test ends.
func dial(t testing.TB, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func acquire(t testing.TB, l lock.Locker, key string, o lock.Options) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key, o)
	require.NoError(t, err)
	return lease
}

// awaitEnd waits for the lease to end and returns why it did.
func awaitEnd(t testing.TB, lease lock.Lease) error {
	t.Helper()
	select {
	case <-lease.Context().Done():
		return context.Cause(lease.Context())
	case <-time.After(patience):
		require.Fail(t, "the lease does not end")
		return nil
	}
}

func requireUnavailable(t testing.TB, err error, took time.Duration) {
	t.Helper()
	require.ErrorIs(t, err, lock.ErrUnavailable)
	require.NotErrorIs(t, err, lock.ErrBusy)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller's deadline has not passed")
	assert.Less(t, took, time.Second)
}

// pause lets time pass in which something else happens.
func pause(d time.Duration) { <-time.After(d) }

// What a call of one of the scripts is, as their headers have it.
func isAcquire(c redistest.Call) bool {
	return c.Args[2] == "5" && len(c.Args) == 16 && slices.Contains([]string{"try", "wait", "poll"}, c.Args[10])
}
func isLeave(c redistest.Call) bool { return c.Args[2] == "5" && !isAcquire(c) }

// tokenOf returns the token that a script was called for.
func tokenOf(c redistest.Call) string {
	keys, _ := strconv.Atoi(c.Args[2])
	return c.Args[3+keys]
}

// configure carries out a line of redis.conf on a running server.
func configure(t testing.TB, client *redis.Client, line string) {
	t.Helper()
	words := strings.Fields(line)
	args := []any{"config", "set"}
	switch words[0] {
	case "user":
		args, words = []any{"acl", "setuser"}, words[1:]
	case "replicaof":
		args = nil
	}
	for _, w := range words {
		args = append(args, w)
	}
	require.NoError(t, client.Do(t.Context(), args...).Err())
}

func splitLines(s string) []string { return strings.Split(strings.TrimSpace(s), "\n") }
