package redislock_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
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

func TestNewReportsEveryProblem(t *testing.T) {
	_, err := redislock.New(nil, redislock.WithPrefix(""), nil, redislock.WithObserver(nil), redislock.WithHandoff(0))
	require.Error(t, err)
	for _, problem := range []string{"client of type <nil>", "empty prefix", "option 2 of 4 is nil", "nil observer", "0 callers"} {
		assert.ErrorContains(t, err, problem)
	}
	_, err = redislock.New((*redis.Client)(nil), redislock.WithPrefix("a{b}"), redislock.WithHandoff(65))
	assert.ErrorContains(t, err, "client is nil")
	assert.ErrorContains(t, err, "brace")
	assert.ErrorContains(t, err, "65 callers")
	_, err = redislock.New((*redis.ClusterClient)(nil))
	assert.ErrorContains(t, err, "client is nil")
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	_, err = redislock.New(ring)
	assert.ErrorContains(t, err, "*redis.Ring")
	_, err = redislock.New(struct{ redis.UniversalClient }{ring})
	assert.ErrorContains(t, err, "struct { redis.UniversalClient }")
}

// What there is in Redis begins with the prefix, has one hash tag, and expires.
func TestL8_Keys(t *testing.T) {
	server := redistest.Start(t)
	ctx := t.Context()
	for _, prefix := range []string{"reqlock:", "shop/"} {
		l := open(t, server.Client(), redislock.WithPrefix(prefix))
		keys := []string{"u1:s1", "a{b}c", "a%7Bb%7Dc", "100%", "}", "line\nbreak", "\xff\xfe", strings.Repeat("k", 128), strings.Repeat("k", 129), strings.Repeat("k", 1<<17)}
		require.NoError(t, server.Client().FlushAll(ctx).Err())
		var leases []lock.Lease
		for _, key := range keys {
			leases = append(leases, acquire(t, l, key, lock.Options{}))
		}
		names := server.Keys("*")
		require.Len(t, names, 2*len(keys), "a lock and a fence for each")
		for _, name := range names {
			assert.True(t, strings.HasPrefix(name, prefix), name)
			tag := strings.TrimPrefix(name, prefix)
			assert.Equal(t, 1, strings.Count(tag, "{"), name)
			assert.Equal(t, 1, strings.Count(tag, "}"), name)
			assert.Greater(t, strings.Index(tag, "}"), 1, name)
			assert.Less(t, len(tag), 200)
			assert.Greater(t, server.Client().PTTL(ctx, name).Val(), time.Second, name)
		}
		for _, lease := range leases {
			require.NoError(t, lease.Release(ctx))
		}
		require.Empty(t, server.Keys("*:lock"))
	}
}

func TestScriptFlush(t *testing.T) {
	server := redistest.Start(t)
	l := open(t, server.Client())
	for range 3 {
		require.NoError(t, server.Client().ScriptFlush(t.Context()).Err())
		lease := acquire(t, l, "key", lock.Options{})
		require.NoError(t, server.Client().ScriptFlush(t.Context()).Err())
		require.NoError(t, lease.Release(t.Context()))
	}
}

func TestClose(t *testing.T) {
	server := redistest.Start(t)
	seen := new(guardtest.Events)
	l := open(t, server.Client(), redislock.WithObserver(seen.Observe))
	lease := acquire(t, l, "held", lock.Options{TTL: longTTL})
	other := open(t, server.Client())
	theirs := acquire(t, other, "theirs", lock.Options{TTL: longTTL})
	var waiting sync.WaitGroup
	for _, key := range []string{"held", "theirs", "theirs"} {
		waiting.Go(func() {
			start := time.Now()
			_, err := l.Acquire(t.Context(), key, lock.Options{Wait: time.Minute})
			assert.ErrorIs(t, err, lock.ErrUnavailable)
			assert.Less(t, time.Since(start), patience)
		})
	}
	start := time.Now()
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	assert.Less(t, time.Since(start), time.Second)
	waiting.Wait()
	require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrLost)
	require.ErrorIs(t, lease.Release(t.Context()), lock.ErrLost)
	_, err := l.Acquire(t.Context(), "late", lock.Options{})
	require.ErrorIs(t, err, lock.ErrUnavailable)
	_, err = l.Interrupt(t.Context(), "late")
	require.ErrorIs(t, err, lock.ErrUnavailable)
	require.Empty(t, guardtest.Of[lock.BackendFailed](seen), "a closed Locker is no outage")
	require.EqualValues(t, 1, server.Client().Exists(t.Context(), lockKey("held")).Val(), "it may still be worked on")
	require.NoError(t, theirs.Release(t.Context()))
}

// Close ends in time, also with much to clean up on a slow link.
func TestCloseDoesNotWaitForAllCleanUp(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l := open(t, dial(t, proxy.Addr()))
	leases := make([]lock.Lease, 100)
	for i := range leases {
		leases[i] = acquire(t, l, fmt.Sprint("key", i), lock.Options{TTL: longTTL})
	}
	proxy.Refuse(true)
	proxy.CutAll()
	for _, lease := range leases {
		require.ErrorIs(t, lease.Release(t.Context()), lock.ErrUnavailable)
	}
	proxy.Delay(50 * time.Millisecond)
	proxy.Refuse(false)
	require.Eventually(t, func() bool { return len(server.Keys("*:lock")) < 100 }, patience, time.Millisecond)
	start := time.Now()
	require.NoError(t, l.Close())
	assert.Less(t, time.Since(start), 2*time.Second)
}

// By default an outage is one line in the log, however many requests meet it.
func TestDefaultLogIsOneLine(t *testing.T) {
	var log lines
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	l, err := redislock.New(client)
	require.NoError(t, err)
	defer l.Close()
	for range 20 {
		_, err := l.Acquire(t.Context(), "key", lock.Options{})
		require.ErrorIs(t, err, lock.ErrUnavailable)
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "level=WARN")
}
