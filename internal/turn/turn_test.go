package turn_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/turn"
	"github.com/reqlock/reqlock/middleware/lock"
)

var (
	errGone = errors.New("gone")
	errAway = errors.New("away")
)

// An entrant is a caller of Enter in the background, whose outcome can be read
// once synctest.Wait has returned.
type entrant struct {
	turn *turn.Turn[int]
	err  error
	done bool
}

func enter(ctx context.Context, q *turn.Queue[int], value int, wait time.Duration) *entrant {
	e := new(entrant)
	go func() {
		e.turn, e.err = q.Enter(ctx, "key", value, wait, 100)
		e.done = true
	}()
	synctest.Wait()
	return e
}

func requireDenied(t *testing.T, err, want error, ahead int) {
	t.Helper()
	require.ErrorIs(t, err, want)
	busy, ok := errors.AsType[*lock.BusyError](err)
	require.True(t, ok)
	require.Equal(t, ahead, busy.Ahead)
}

func TestTurnsComeInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q turn.Queue[int]
		first := enter(t.Context(), &q, 0, 0)
		require.True(t, first.done)
		waiters := []*entrant{first}
		for i := range 5 {
			waiters = append(waiters, enter(t.Context(), &q, i+1, time.Hour))
			require.Equal(t, i+2, q.Ahead("key"))
		}
		for i, w := range waiters {
			require.True(t, w.done)
			require.NoError(t, w.err)
			for _, later := range waiters[i+1:] {
				require.False(t, later.done)
			}
			head, ok := q.Head("key")
			require.True(t, ok)
			require.Equal(t, i, head)
			w.turn.Pass()
			w.turn.Pass() // does not pass the turn of the next
			w.turn.Fail(errAway)
			synctest.Wait()
		}
		require.Zero(t, q.Keys())
		require.Zero(t, q.Ahead("key"))
		_, ok := q.Head("key")
		require.False(t, ok)
	})
}

func TestKeysAreIndependent(t *testing.T) {
	var q turn.Queue[string]
	for _, key := range []string{"a", "b", ""} {
		_, err := q.Enter(t.Context(), key, key, 0, 1)
		require.NoError(t, err)
		head, ok := q.Head(key)
		require.True(t, ok)
		require.Equal(t, key, head)
	}
}

func TestDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q turn.Queue[int]
		head := enter(t.Context(), &q, 0, 0)
		short := enter(t.Context(), &q, 1, time.Second)
		shorter := enter(t.Context(), &q, 2, time.Millisecond)

		start := time.Now()
		_, err := q.Enter(t.Context(), "key", 3, 0, 0)
		requireDenied(t, err, lock.ErrBusy, 3)
		_, err = q.Enter(t.Context(), "key", 3, time.Hour, 2)
		requireDenied(t, err, lock.ErrQueueFull, 3)
		require.Zero(t, time.Since(start), "both at once")

		_, err = q.Enter(t.Context(), "key", 3, time.Minute, 3) // there is room for one more
		require.Equal(t, time.Minute, time.Since(start))
		requireDenied(t, err, lock.ErrBusy, 1) // those ahead have left before
		synctest.Wait()
		requireDenied(t, short.err, lock.ErrBusy, 1)
		requireDenied(t, shorter.err, lock.ErrBusy, 2)
		require.Equal(t, 1, q.Ahead("key"))
		head.turn.Pass()
		require.Zero(t, q.Keys())
	})
}

func TestDoneContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q turn.Queue[int]
		ctx, cancel := context.WithCancelCause(t.Context())
		head := enter(t.Context(), &q, 0, 0)
		leaver := enter(ctx, &q, 1, time.Hour)
		stayer := enter(t.Context(), &q, 2, time.Hour)
		cancel(errGone)
		synctest.Wait()
		require.True(t, leaver.done)
		require.Equal(t, errGone, leaver.err)
		require.Nil(t, leaver.turn)
		require.Equal(t, 2, q.Ahead("key"), "it keeps no place")

		for _, wait := range []time.Duration{0, time.Hour} {
			for _, key := range []string{"key", "free"} {
				_, err := q.Enter(ctx, key, 3, wait, 1)
				require.Equal(t, errGone, err)
			}
		}
		head.turn.Pass()
		synctest.Wait()
		require.NoError(t, stayer.err)
		stayer.turn.Pass()
		require.Zero(t, q.Keys())
	})
}

// A cause is the caller's own: it may even be the error of another lock.
func TestCauseThatIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q turn.Queue[int]
		ctx, cancel := context.WithCancelCause(t.Context())
		enter(t.Context(), &q, 0, 0)
		leaver := enter(ctx, &q, 1, time.Hour)
		cancel(lock.ErrBusy)
		synctest.Wait()
		require.Equal(t, lock.ErrBusy, leaver.err, "the cause as it is")
	})
}

// In a bubble two timers of the same instant are both due before anybody runs.
func TestDeadlineWithTheEndOfTheWait(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			var q turn.Queue[int]
			enter(t.Context(), &q, 0, 0)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errGone)
			defer cancel()
			w := enter(ctx, &q, 1, time.Second)
			time.Sleep(time.Second)
			synctest.Wait()
			require.True(t, w.done)
			if !errors.Is(w.err, errGone) {
				requireDenied(t, w.err, lock.ErrBusy, 1)
			}
			require.Equal(t, 1, q.Ahead("key"))
		})
	}
}

func TestFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q turn.Queue[int]
		head := enter(t.Context(), &q, 0, 0)
		var waiters []*entrant
		for i := range 3 {
			waiters = append(waiters, enter(t.Context(), &q, i+1, time.Hour))
		}
		head.turn.Fail(errAway)
		require.Zero(t, q.Keys())

		next := enter(t.Context(), &q, 9, 0) // a new line, that the old ones are no part of
		require.NoError(t, next.err)
		for _, w := range waiters {
			require.True(t, w.done)
			require.Equal(t, errAway, w.err)
			require.Nil(t, w.turn)
		}
		head.turn.Fail(errAway)
		head.turn.Pass()
		require.Equal(t, 1, q.Ahead("key"))
		next.turn.Pass()
		require.Zero(t, q.Keys())
	})
}

// The end of the wait, a cancel and the turn race; whatever wins, nobody else
// loses the turn.
func TestLeavingAsTheTurnComes(t *testing.T) {
	for round := range 2000 {
		var q turn.Queue[int]
		head, err := q.Enter(t.Context(), "key", 0, 0, 0)
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		wait := time.Hour
		if round%2 == 0 {
			wait = time.Nanosecond
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			turn, err := q.Enter(ctx, "key", 1, wait, 2)
			if err == nil {
				turn.Pass()
			}
		})
		wg.Go(func() {
			turn, err := q.Enter(t.Context(), "key", 2, time.Hour, 2)
			if assert.NoError(t, err) {
				turn.Pass()
			}
		})
		for round%4 > 1 && q.Ahead("key") < 2 {
		}
		wg.Go(head.Pass)
		wg.Go(func() { cancel(errGone) })
		wg.Wait()
		require.Zero(t, q.Keys())
	}
}

func TestNothingIsKeptForFreeKeys(t *testing.T) {
	const n = 100_000
	var q turn.Queue[int]
	turns := make([]*turn.Turn[int], n)
	for i := range n {
		turns[i], _ = q.Enter(t.Context(), fmt.Sprint(i), i, 0, 0)
	}
	require.Equal(t, n, q.Keys())
	for i, turn := range turns {
		if i%2 == 0 {
			turn.Pass()
		} else {
			turn.Fail(errAway)
		}
	}
	require.Zero(t, q.Keys())
}

func TestOneAtATime(t *testing.T) {
	const workers, rounds = 16, 200
	var q turn.Queue[int]
	counts := make(map[string]*int) // plain: the turn is what guards them
	keys := []string{"a", "b"}
	for _, key := range keys {
		counts[key] = new(int)
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for r := range rounds {
				key := keys[(w+r)%len(keys)]
				turn, err := q.Enter(t.Context(), key, w, time.Minute, workers)
				if !assert.NoError(t, err) {
					return
				}
				*counts[key]++
				turn.Pass()
			}
		})
	}
	wg.Wait()
	require.Equal(t, workers*rounds, *counts["a"]+*counts["b"])
	require.Zero(t, q.Keys())
}

// Whoever waits leaves when told to, and whoever has got the turn by then keeps it.
func TestQuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quit := make(chan struct{})
		q := turn.Queue[int]{Quit: func(value int) <-chan struct{} {
			if value == 3 {
				return nil // stays
			}
			return quit
		}}
		first, second, third := enter(t.Context(), &q, 1, 0), enter(t.Context(), &q, 2, time.Hour), enter(t.Context(), &q, 3, time.Hour)
		require.True(t, first.done)
		close(quit)
		synctest.Wait()
		require.True(t, second.done)
		require.Equal(t, turn.ErrQuit, second.err)
		require.False(t, third.done)
		late := enter(t.Context(), &q, 4, time.Hour)
		require.Equal(t, turn.ErrQuit, late.err)
		first.turn.Pass()
		synctest.Wait()
		require.NoError(t, third.err)
		third.turn.Pass()

		only := enter(t.Context(), &q, 5, time.Hour)
		require.NoError(t, only.err, "nobody has to wait")
		waits := enter(t.Context(), &q, 3, time.Hour)
		only.turn.Fail(errAway)
		synctest.Wait()
		require.Equal(t, errAway, waits.err)
		require.Zero(t, q.Keys())
	})
}
