// Package turn gives the callers of one process their turns on a key, one at
// a time and in order of arrival. It is what memlock consists of, and what
// stands before the backend in redislock: whoever has the turn is the only one
// of its process that asks for the key.
package turn

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// A Queue holds the lines of callers before the keys. T describes a caller to
// the others. The zero value is ready; all methods may be called concurrently.
type Queue[T any] struct {
	mu    sync.Mutex
	lines map[string]*line[T] // only of keys that somebody has the turn on
}

type line[T any] struct {
	head    *Turn[T]
	waiting list.List // of *Turn[T], the oldest first
}

// A Turn is the right to be the one caller that deals with a key.
type Turn[T any] struct {
	queue *Queue[T]
	key   string
	value T
	ready chan error    // nil: it is your turn; only where it had to wait
	place *list.Element // nil once it does not wait any more
}

// Enter waits for the turn on key, at most wait. A wait of 0 is one try.
//
// It returns the cause of ctx where that is done, also where the turn came at
// the same moment; a [lock.BusyError] where wait ran out, or at once where
// maxWaiting others wait already; and what [Turn.Fail] was called with, where
// that happened to the turn ahead.
func (q *Queue[T]) Enter(ctx context.Context, key string, value T, wait time.Duration, maxWaiting int) (*Turn[T], error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t, err := q.enter(key, value, wait, maxWaiting)
	if err != nil || t.ready == nil {
		return t, err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case err = <-t.ready:
	case <-timer.C:
		err = t.leave()
	case <-ctx.Done():
		err = t.leave()
	}
	if ctx.Err() != nil {
		if err == nil { // the turn came all the same
			t.Pass()
		}
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// enter takes the turn, or a place in the line, or neither.
func (q *Queue[T]) enter(key string, value T, wait time.Duration, maxWaiting int) (*Turn[T], error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	if l == nil {
		if q.lines == nil {
			q.lines = make(map[string]*line[T])
		}
		t := &Turn[T]{queue: q, key: key, value: value}
		q.lines[key] = &line[T]{head: t}
		return t, nil
	}
	if wait <= 0 {
		return nil, &lock.BusyError{Err: lock.ErrBusy, Ahead: 1 + l.waiting.Len()}
	}
	if l.waiting.Len() >= maxWaiting {
		return nil, &lock.BusyError{Err: lock.ErrQueueFull, Ahead: 1 + l.waiting.Len()}
	}
	t := &Turn[T]{queue: q, key: key, value: value, ready: make(chan error, 1)}
	t.place = l.waiting.PushBack(t)
	return t, nil
}

// Waited says whether somebody had the turn before.
func (t *Turn[T]) Waited() bool { return t.ready != nil }

// leave gives up the place in the line. Where that is too late, because the
// turn came or failed at the same moment, it returns what came.
func (t *Turn[T]) leave() error {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if t.place == nil {
		return <-t.ready // sent by grant, which holds the mutex as well
	}
	ahead := 1
	for e := t.place.Prev(); e != nil; e = e.Prev() {
		ahead++
	}
	t.queue.lines[t.key].waiting.Remove(t.place)
	t.place = nil
	return &lock.BusyError{Err: lock.ErrBusy, Ahead: ahead}
}

// grant ends the wait of t with what ready is to say. The mutex is held.
func (t *Turn[T]) grant(err error) {
	t.place = nil
	t.ready <- err // buffered, and sent once: whoever has no place gets no grant
}

// Pass gives the turn to who has waited longest. Calls after the first, or
// after Fail, do nothing.
func (t *Turn[T]) Pass() {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	l := t.queue.lines[t.key]
	if l == nil || l.head != t {
		return
	}
	first := l.waiting.Front()
	if first == nil {
		delete(t.queue.lines, t.key)
		return
	}
	l.head = l.waiting.Remove(first).(*Turn[T])
	l.head.grant(nil)
}

// Fail ends the turn and hands err to everyone who waits behind it: what one
// caller has just found out, the others need not each find out in turn.
func (t *Turn[T]) Fail(err error) {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	l := t.queue.lines[t.key]
	if l == nil || l.head != t {
		return
	}
	delete(t.queue.lines, t.key)
	for e := l.waiting.Front(); e != nil; e = e.Next() {
		e.Value.(*Turn[T]).grant(err)
	}
}

// Head returns what the caller whose turn it is gave to Enter.
func (q *Queue[T]) Head(key string) (value T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[key]; l != nil {
		return l.head.value, true
	}
	return value, false
}

// Next returns what the caller who gets the turn next, as things are, gave to
// Enter.
func (q *Queue[T]) Next(key string) (value T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[key]; l != nil {
		if first := l.waiting.Front(); first != nil {
			return first.Value.(*Turn[T]).value, true
		}
	}
	return value, false
}

// Ahead counts those whose turn comes before that of a caller who would enter
// now.
func (q *Queue[T]) Ahead(key string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[key]; l != nil {
		return 1 + l.waiting.Len()
	}
	return 0
}
