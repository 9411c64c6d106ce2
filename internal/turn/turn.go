// Package turn gives the callers of one process their turns on a key, one at
// a time and in order of arrival. It is what memlock consists of, and what
// stands before the backend in redislock: whoever has the turn is the only one
// of its process that asks for the key.
package turn

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// A Queue holds the lines of callers before the keys. T describes a caller to
// the others. The zero value is ready; all methods may be called concurrently.
type Queue[T any] struct {
	// Quit, which may be nil, returns a channel that ends the wait of a caller when it
	// is closed; a nil channel never does. It is set before the first call.
	Quit func(T) <-chan struct{}

	mu    sync.Mutex
	heads map[string]*Turn[T] // only of keys that somebody has the turn on
}

// A Turn is the right to be the one caller that deals with a key.
type Turn[T any] struct {
	queue *Queue[T]
	key   string
	value T
	ready chan error    // nil: it is your turn; only where it had to wait
	place *list.Element // nil once it does not wait any more

	// waiting has those behind, as *Turn[T], the oldest first. Only who has the
	// turn has it, and nil is none.
	waiting *list.List
}

// ErrQuit is for a caller whose wait [Queue.Quit] has ended.
var ErrQuit = errors.New("turn: quit")

// Enter waits for the turn on key, at most wait. A wait of 0 is one try.
//
// It returns the cause of ctx where that is done, also where the turn came at
// the same moment; a [lock.BusyError] where wait ran out, or at once where
// maxWaiting others wait already; [ErrQuit]; and what [Turn.Fail] was called with,
// where that happened to the turn ahead.
func (q *Queue[T]) Enter(ctx context.Context, key string, value T, wait time.Duration, maxWaiting int) (*Turn[T], error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t, err := q.enter(key, value, wait, maxWaiting)
	if err != nil || t.ready == nil {
		return t, err
	}
	var quit <-chan struct{}
	if q.Quit != nil {
		quit = q.Quit(value)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case err = <-t.ready:
	case <-timer.C:
		_, err = t.leave()
	case <-quit:
		var left bool
		if left, err = t.leave(); left {
			err = ErrQuit
		}
	case <-ctx.Done():
		_, err = t.leave()
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
	head := q.heads[key]
	if head == nil {
		if q.heads == nil {
			q.heads = make(map[string]*Turn[T])
		}
		t := &Turn[T]{queue: q, key: key, value: value}
		q.heads[key] = t
		return t, nil
	}
	if wait <= 0 {
		return nil, &lock.BusyError{Err: lock.ErrBusy, Ahead: 1 + head.behind()}
	}
	if head.behind() >= maxWaiting {
		return nil, &lock.BusyError{Err: lock.ErrQueueFull, Ahead: 1 + head.behind()}
	}
	t := &Turn[T]{queue: q, key: key, value: value, ready: make(chan error, 1)}
	if head.waiting == nil {
		head.waiting = list.New()
	}
	t.place = head.waiting.PushBack(t)
	return t, nil
}

// behind counts those who wait behind t, which has the turn. The mutex is held.
func (t *Turn[T]) behind() int {
	if t.waiting == nil {
		return 0
	}
	return t.waiting.Len()
}

// Waited says whether somebody had the turn before.
func (t *Turn[T]) Waited() bool { return t.ready != nil }

// leave gives up the place in the line. Where that is too late, because the
// turn came or failed at the same moment, it has not left, and returns what came.
func (t *Turn[T]) leave() (left bool, err error) {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if t.place == nil {
		return false, <-t.ready // sent by grant, which holds the mutex as well
	}
	ahead := 1
	for e := t.place.Prev(); e != nil; e = e.Prev() {
		ahead++
	}
	t.queue.heads[t.key].waiting.Remove(t.place)
	t.place = nil
	return true, &lock.BusyError{Err: lock.ErrBusy, Ahead: ahead}
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
	if t.queue.heads[t.key] != t {
		return
	}
	if t.behind() == 0 {
		delete(t.queue.heads, t.key)
		return
	}
	next := t.waiting.Remove(t.waiting.Front()).(*Turn[T])
	next.waiting, t.waiting = t.waiting, nil
	t.queue.heads[t.key] = next
	next.grant(nil)
}

// Fail ends the turn and hands err to everyone who waits behind it: what one
// caller has just found out, the others need not each find out in turn.
func (t *Turn[T]) Fail(err error) {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if t.queue.heads[t.key] != t {
		return
	}
	delete(t.queue.heads, t.key)
	if t.behind() == 0 {
		return
	}
	for e := t.waiting.Front(); e != nil; e = e.Next() {
		e.Value.(*Turn[T]).grant(err)
	}
}

// Head returns what the caller whose turn it is gave to Enter.
func (q *Queue[T]) Head(key string) (value T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if head := q.heads[key]; head != nil {
		return head.value, true
	}
	return value, false
}

// Next returns what the caller who gets the turn next, as things are, gave to
// Enter.
func (q *Queue[T]) Next(key string) (value T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if head := q.heads[key]; head != nil && head.behind() > 0 {
		return head.waiting.Front().Value.(*Turn[T]).value, true
	}
	return value, false
}

// Ahead counts those whose turn comes before that of a caller who would enter
// now.
func (q *Queue[T]) Ahead(key string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if head := q.heads[key]; head != nil {
		return 1 + head.behind()
	}
	return 0
}
