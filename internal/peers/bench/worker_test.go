package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

type lockFunc func(ctx context.Context, key string) (context.Context, func() error, error)

func (f lockFunc) Lock(ctx context.Context, key string) (context.Context, func() error, error) {
	return f(ctx, key)
}

var errTest = errors.New("test")

func unlocked() error { return nil }

// newWorker returns one that has been told everything.
func newWorker(t task, l locker, words ...string) *worker {
	w := &worker{task: t, locker: l, words: make(chan string, len(words)), out: json.NewEncoder(io.Discard)}
	for _, word := range words {
		w.words <- word
	}
	return w
}

func TestLeases(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	l := lockFunc(func(ctx context.Context, key string) (context.Context, func() error, error) {
		switch key {
		case "k:0", "k:4":
			return ended, unlocked, nil
		case "k:3":
			return nil, nil, errTest
		}
		return ctx, unlocked, nil
	})
	w := newWorker(task{Name: "k", Keys: 8, Goroutines: 3, Patience: time.Minute}, l, "go", "go", "end")
	w.leases()
	assert.Equal(t, 2, w.report.Lost)
	assert.Equal(t, 1, w.report.Failures)
	assert.Len(t, w.report.Holds, 7)
	assert.Zero(t, overlaps(w.report.Holds), "keys are distinct")
}

// Only who is not served in time is no failure.
func TestCrowd(t *testing.T) {
	var calls atomic.Int64
	l := lockFunc(func(ctx context.Context, _ string) (context.Context, func() error, error) {
		switch calls.Add(1) {
		case 1:
			return ctx, unlocked, nil
		case 2:
			return ctx, func() error { return errTest }, nil
		case 3:
			return nil, nil, errTest
		}
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	w := newWorker(task{Goroutines: 5, Time: 100 * time.Millisecond}, l, "go")
	w.crowd()
	assert.Len(t, w.report.Holds, 2)
	assert.Len(t, w.report.GivenUp, 3)
	assert.Equal(t, 2, w.report.Failures)
	assert.Equal(t, "test", w.report.Failure)
	assert.GreaterOrEqual(t, w.report.Took, w.Time)
}
