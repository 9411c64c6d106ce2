package redislock

import (
	"container/heap"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

// An extension that is answered after the lease has run out does not bring it
// back, also where nobody has noticed the end yet.
func TestL9_LateAnswerIsJudgedByTheClock(t *testing.T) {
	answers := []struct {
		outcome outcome
		lost    error
	}{
		{done, nil}, // the scheduler finds it next
		{doneInterrupted, nil},
		{unknown, nil},
		{notOurs, lock.ErrExpired}, // not stolen: it was over by then
		{gone, lock.ErrExpired},
	}
	for _, a := range answers {
		r := &renewals{wake: make(chan struct{}, 1)} // nobody runs it
		ended := time.Now().Add(-time.Millisecond)
		s := &lease{ttl: time.Second, cancel: func(error) {}, renewal: renewal{until: ended, extending: make(chan struct{})}}
		heap.Push(&r.due, s)
		require.Equal(t, a.lost == nil, r.extended(s, ended.Add(-time.Second/2), a.outcome))
		require.ErrorIs(t, s.lost, a.lost)
		require.Equal(t, ended, s.until)
		expired, _, _ := r.look(time.Now().Add(time.Second))
		if a.lost == nil {
			require.Equal(t, []*lease{s}, expired)
			require.ErrorIs(t, s.lost, lock.ErrExpired)
		}
	}
}
