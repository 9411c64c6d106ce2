package join_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
)

// dead is a Locker whose backend does not answer.
type dead struct{ lock.Locker }

func (d dead) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	select {
	case <-time.After(o.Wait + 500*time.Millisecond):
	case <-ctx.Done():
	}
	return nil, &lock.UnavailableError{Err: errors.New("down")}
}

// In an outage nobody is told that somebody else has the key.
func TestL23_FollowersInAnOutage(t *testing.T) {
	for _, wait := range []time.Duration{0, 300 * time.Millisecond} {
		p := setup{guard: []middleware.Option{middleware.WithWait(wait)}}
		s := serve(t, p)
		s.locks.Locker = dead{s.locks.Locker}
		a := s.send(s.get("leader"))
		s.watched(1)
		b := s.send(s.get("f"))
		assert.Equal(t, 503, a.head().StatusCode)
		assert.Equal(t, 503, b.head().StatusCode, "wait %v", wait)
	}
}

// late is a Locker that takes its time to grant.
type late struct{ lock.Locker }

func (l late) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	time.Sleep(100 * time.Millisecond)
	return l.Locker.Acquire(ctx, key, o)
}

// Who would not wait for the key waits for whoever is asking for it.
func TestJoiningWithoutAWait(t *testing.T) {
	s := serve(t, setup{guard: []middleware.Option{middleware.WithWait(0)}})
	s.locks.Locker = late{s.locks.Locker}
	first := s.send(s.get("first"))
	s.watched(1)
	second := s.send(s.get("second"))
	s.watched(2)
	c := s.next()
	c.write("answer")
	c.end()
	assert.Equal(t, []string{"answer", "answer"}, readAll([]*visitor{first, second}))
}
