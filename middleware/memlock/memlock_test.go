package memlock_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/locktest"
	"github.com/reqlock/reqlock/middleware/memlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	locktest.Run(t, func(*testing.T) locktest.Fixture {
		return locktest.Fixture{Locker: memlock.New()}
	})
}

func TestLockersAreIndependent(t *testing.T) {
	a, b := memlock.New(), memlock.New()
	for _, l := range []*memlock.Locker{a, b} {
		lease, err := l.Acquire(t.Context(), "key", lock.Options{})
		require.NoError(t, err)
		defer lease.Release(t.Context())
	}
	held, err := memlock.New().Interrupt(t.Context(), "key")
	require.NoError(t, err)
	require.False(t, held)
}

// A process that restarts has a new Locker, whose fences must exceed those of
// the old one. In a bubble the clock stands still until all sleep.
func TestFencesStartFromTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlock.New()
		for _, want := range []int64{0, 1, 2} {
			require.Equal(t, uint64(time.Now().UnixMicro()+want), fenceOf(t, l))
		}
		time.Sleep(time.Microsecond) // the clock is still behind
		require.Equal(t, uint64(time.Now().UnixMicro()+2), fenceOf(t, l))
		time.Sleep(time.Second)
		require.Equal(t, uint64(time.Now().UnixMicro()), fenceOf(t, l))
		require.Equal(t, uint64(time.Now().UnixMicro()), fenceOf(t, memlock.New()))
	})
}

func fenceOf(t *testing.T, l *memlock.Locker) uint64 {
	lease, err := l.Acquire(t.Context(), "key", lock.Options{})
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))
	return lease.Fence()
}

func TestFencesAreUnique(t *testing.T) {
	const workers, rounds = 8, 500
	l := memlock.New()
	fences := make([][]uint64, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range rounds {
				lease, err := l.Acquire(t.Context(), fmt.Sprint("key ", w), lock.Options{})
				if !assert.NoError(t, err) {
					return
				}
				fences[w] = append(fences[w], lease.Fence())
				assert.NoError(t, lease.Release(t.Context()))
			}
		})
	}
	wg.Wait()
	seen := make(map[uint64]bool)
	for _, of := range fences {
		for _, fence := range of {
			require.False(t, seen[fence], "two leases have the fence %d", fence)
			seen[fence] = true
		}
	}
}

// What is free costs nothing: neither keys that were held once, nor callers
// that were turned away while their request lives on.
func TestNothingIsKept(t *testing.T) {
	const n = 100_000
	const slack = 1 << 20
	request, cancel := context.WithCancel(t.Context())
	defer cancel()
	tests := []struct {
		name string
		call func(l *memlock.Locker, i int) error
		want error
	}{
		{"for a key that was released", acquireAndRelease(request), nil},
		{"for a caller that was turned away", func(l *memlock.Locker, i int) error {
			_, err := l.Acquire(request, "held", lock.Options{})
			return err
		}, lock.ErrBusy},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := memlock.New()
			lease, err := l.Acquire(t.Context(), "held", lock.Options{})
			require.NoError(t, err)
			before := heap()
			for i := range n {
				require.ErrorIs(t, tt.call(l, i), tt.want)
			}
			require.Less(t, heap(), before+slack)
			require.NoError(t, lease.Release(t.Context()))
		})
	}
}

func acquireAndRelease(ctx context.Context) func(*memlock.Locker, int) error {
	return func(l *memlock.Locker, i int) error {
		lease, err := l.Acquire(ctx, fmt.Sprint("key ", i), lock.Options{})
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkAcquireRelease(b *testing.B) {
	l, ctx := memlock.New(), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		lease, err := l.Acquire(ctx, "key", lock.Options{Wait: time.Second})
		if err != nil {
			b.Fatal(err)
		}
		_ = lease.Release(ctx)
	}
}

func BenchmarkTurnedAway(b *testing.B) {
	l, ctx := memlock.New(), b.Context()
	if _, err := l.Acquire(ctx, "key", lock.Options{}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Acquire(ctx, "key", lock.Options{}); err == nil {
			b.Fatal("not held")
		}
	}
}

func BenchmarkContended(b *testing.B) {
	l := memlock.New()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			lease, err := l.Acquire(b.Context(), "key", lock.Options{Wait: time.Minute, MaxQueue: 1 << 20})
			if err != nil {
				b.Error(err)
				return
			}
			_ = lease.Release(b.Context())
		}
	})
}
