package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

func TestOptionsCheck(t *testing.T) {
	tests := []struct {
		name     string
		o        lock.Options
		problems []string // what the error names, each once; none: no error
	}{
		{"zero", lock.Options{}, nil},
		{"all set", lock.Options{TTL: time.Minute, Wait: time.Hour, MaxQueue: 1}, nil},
		{"least TTL", lock.Options{TTL: lock.MinTTL}, nil},
		{"Wait above TTL", lock.Options{TTL: time.Second, Wait: time.Hour}, nil},
		{"TTL too short", lock.Options{TTL: lock.MinTTL - 1}, []string{"TTL of 49.999999ms"}},
		{"TTL negative", lock.Options{TTL: -1}, []string{"TTL of -1ns"}},
		{"Wait negative", lock.Options{Wait: -time.Second}, []string{"Wait of -1s"}},
		{"MaxQueue negative", lock.Options{MaxQueue: -3}, []string{"MaxQueue of -3"}},
		{"all wrong", lock.Options{TTL: 1, Wait: -1, MaxQueue: -1}, []string{"TTL of 1ns", "Wait of -1ns", "MaxQueue of -1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.o.Check()
			if tt.problems == nil {
				require.NoError(t, err)
				return
			}
			var joined interface{ Unwrap() []error }
			require.ErrorAs(t, err, &joined)
			require.Len(t, joined.Unwrap(), len(tt.problems))
			for i, problem := range tt.problems {
				require.ErrorContains(t, joined.Unwrap()[i], "lock: "+problem+": must be")
			}
		})
	}
}

func TestOptionsWithDefaults(t *testing.T) {
	set := lock.Options{TTL: time.Minute, Wait: time.Hour, MaxQueue: 1}
	tests := []struct{ in, want lock.Options }{
		{lock.Options{}, lock.Options{TTL: 10 * time.Second, MaxQueue: 128}},
		{lock.Options{Wait: time.Second}, lock.Options{TTL: lock.DefaultTTL, Wait: time.Second, MaxQueue: lock.DefaultMaxQueue}},
		{set, set},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, tt.in.WithDefaults())
	}
}

func TestOptionsWaitUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where the clock stands still
		o := lock.Options{TTL: time.Minute, Wait: time.Hour, MaxQueue: 7}
		for left, want := range map[time.Duration]time.Duration{
			time.Minute:          time.Minute,
			2 * time.Hour:        2 * time.Hour,
			time.Millisecond:     time.Millisecond,
			time.Millisecond - 1: 0, // which Check would refuse
			0:                    0,
			-time.Second:         0,
		} {
			got := o.WaitUntil(time.Now().Add(left))
			require.NoError(t, got.Check())
			require.Equal(t, lock.Options{TTL: time.Minute, Wait: want, MaxQueue: 7}, got)
		}
		require.Equal(t, time.Hour, o.Wait)
	})
}

// Each error matches itself and those it is a kind of, and no other: an outage
// is told apart from contention, a theft from an expiry.
func TestErrorsAreToldApart(t *testing.T) {
	all := []error{
		lock.ErrBusy, lock.ErrQueueFull, lock.ErrUnavailable, lock.ErrLost, lock.ErrExpired,
		lock.ErrStolen, lock.ErrInterrupted, lock.ErrMaxHold, lock.ErrReleased,
		context.Canceled, context.DeadlineExceeded,
	}
	kinds := map[error]error{lock.ErrExpired: lock.ErrLost, lock.ErrStolen: lock.ErrLost}
	texts := make(map[string]bool)
	for _, err := range all {
		for _, other := range all {
			want := err == other || kinds[err] == other
			require.Equal(t, want, errors.Is(err, other), "%v is %v", err, other)
			require.Equal(t, want, errors.Is(fmt.Errorf("wrapped: %w", err), other))
		}
		require.False(t, texts[err.Error()], "two errors read %q", err)
		texts[err.Error()] = true
	}
}

func TestBusyError(t *testing.T) {
	tests := []struct {
		err       lock.BusyError
		is, other error
		text      string
	}{
		{lock.BusyError{Err: lock.ErrBusy, Ahead: 1}, lock.ErrBusy, lock.ErrQueueFull, "lock: held by somebody else (1 ahead)"},
		{lock.BusyError{Err: lock.ErrQueueFull, Ahead: 129}, lock.ErrQueueFull, lock.ErrBusy, "lock: too many are waiting (129 ahead)"},
	}
	for _, tt := range tests {
		wrapped := fmt.Errorf("wrapped: %w", &tt.err)
		require.ErrorIs(t, wrapped, tt.is)
		require.NotErrorIs(t, wrapped, tt.other)
		require.EqualError(t, &tt.err, tt.text)
		got, ok := errors.AsType[*lock.BusyError](wrapped)
		require.True(t, ok)
		require.Equal(t, tt.err.Ahead, got.Ahead)
	}
}

func TestUnavailableError(t *testing.T) {
	inner := fmt.Errorf("redis: connection refused: %w", lock.ErrUnavailable)
	err := fmt.Errorf("wrapped: %w", &lock.UnavailableError{Err: inner, After: 2 * time.Second})
	require.ErrorIs(t, err, lock.ErrUnavailable)
	require.ErrorIs(t, err, inner)
	require.NotErrorIs(t, err, lock.ErrBusy)
	require.EqualError(t, err, "wrapped: redis: connection refused: lock: backend unavailable (for another 2s)")
	got, ok := errors.AsType[*lock.UnavailableError](err)
	require.True(t, ok)
	require.Equal(t, 2*time.Second, got.After)
}

type lease struct{ lock.Lease }

func TestFrom(t *testing.T) {
	_, ok := lock.From(t.Context())
	require.False(t, ok)

	outer, inner := new(lease), new(lease)
	type name struct{}
	parent := context.WithValue(t.Context(), name{}, "value")
	ctx := lock.NewContext(parent, outer)
	child, cancel := context.WithCancel(ctx)
	defer cancel()
	nested := lock.NewContext(child, inner)

	for ctx, want := range map[context.Context]*lease{ctx: outer, child: outer, nested: inner} {
		got, ok := lock.From(ctx)
		require.True(t, ok)
		require.Same(t, want, got)
		require.Equal(t, "value", ctx.Value(name{}))
	}
	_, ok = lock.From(parent)
	require.False(t, ok)
}
