package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// A peer that renews tells of a lock that Redis has forgotten.
func TestLost(t *testing.T) {
	for _, c := range []struct {
		name string
		open func(*testing.T, setup) locker
	}{
		{ours, func(t *testing.T, s setup) locker {
			client := s.client()
			t.Cleanup(func() { _ = client.Close() })
			locks, err := redislock.New(client, redislock.WithObserver(func(context.Context, lock.Event) {}))
			require.NoError(t, err)
			t.Cleanup(func() { _ = locks.Close() })
			return reqlock{locks, lock.Options{TTL: s.ttl}}
		}},
		{"rueidislock", func(t *testing.T, s setup) locker {
			l, err := openRueidislock(s)
			require.NoError(t, err)
			t.Cleanup(l.(rueidisPeer).locks.Close)
			return l
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := redistest.Start(t)
			l := c.open(t, setup{redis: server.Addr(), ttl: time.Second, wire: new(wire)})
			held, unlock, err := l.Lock(t.Context(), "key")
			require.NoError(t, err)
			require.NoError(t, held.Err())
			require.NoError(t, server.Client().FlushAll(t.Context()).Err())
			select {
			case <-held.Done():
			case <-time.After(10 * time.Second):
				assert.Fail(t, "not told")
			}
			_ = unlock()
		})
	}
}
