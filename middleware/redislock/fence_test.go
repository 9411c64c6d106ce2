package redislock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
)

// Whatever ended the lease before, the next one's fence is greater. A holder
// that crashes is in TestHolderKilled.
func TestFencesRise(t *testing.T) {
	server := redistest.Start(t, "appendonly yes")
	ctx := t.Context()
	l := open(t, server.Client())
	ends := []struct {
		name string
		end  func(lock.Lease)
	}{
		{"released", func(s lock.Lease) { require.NoError(t, s.Release(ctx)) }},
		{"expired", func(lock.Lease) {
			require.NoError(t, server.Client().PExpire(ctx, lockKey("key"), time.Millisecond).Err())
		}},
		{"lost", func(lock.Lease) { require.NoError(t, server.Client().Del(ctx, lockKey("key")).Err()) }},
		{"restart with the data", func(s lock.Lease) { require.NoError(t, s.Release(ctx)); server.Restart() }},
		{"all data gone", func(lock.Lease) { require.NoError(t, server.Client().FlushAll(ctx).Err()) }},
		{"restart without the data", func(lock.Lease) {
			require.NoError(t, server.Client().FlushAll(ctx).Err())
			server.Restart()
		}},
	}
	var last uint64
	for range 3 {
		for _, e := range ends {
			lease, err := l.Acquire(ctx, "key", lock.Options{TTL: 500 * time.Millisecond, Wait: patience})
			require.NoError(t, err, e.name)
			require.Greater(t, lease.Fence(), last, e.name)
			require.Less(t, lease.Fence(), uint64(1)<<53)
			last = lease.Fence()
			e.end(lease)
			_ = lease.Release(ctx)
		}
	}
}

// A counter that is ahead of the server's clock goes on, to the last digit.
func TestFencesRiseAheadOfTheClock(t *testing.T) {
	server := redistest.Start(t)
	l := open(t, server.Client())
	ahead := uint64(1)<<52 + 1
	require.NoError(t, server.Client().Set(t.Context(), "reqlock:{key}:fence", ahead, 0).Err())
	const block = 64 // for each time that Redis gives the lock
	for i := range uint64(3) {
		lease := acquire(t, l, "key", lock.Options{})
		require.Equal(t, ahead+1+i*block, lease.Fence())
		require.NoError(t, lease.Release(t.Context()))
	}
}
