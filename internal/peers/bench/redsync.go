package main

import (
	"context"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
)

type redsyncPeer struct {
	sync *redsync.Redsync
	ttl  time.Duration
}

func openRedsync(s setup) (locker, error) {
	return redsyncPeer{redsync.New(goredis.NewPool(s.client())), s.ttl}, nil
}

// Lock tries until ctx is done, since the default of 32 tries is up after five
// seconds. The delay between two tries is the default, 50 to 250 ms: a shorter
// one would show shorter waits, and more commands by the same factor.
func (l redsyncPeer) Lock(ctx context.Context, key string) (context.Context, func() error, error) {
	m := l.sync.NewMutex(key, redsync.WithExpiry(l.ttl), redsync.WithTries(math.MaxInt))
	if err := m.LockContext(ctx); err != nil {
		return nil, nil, err
	}
	ctx = context.WithoutCancel(ctx) // it bounds the wait only
	return ctx, func() error { _, err := m.UnlockContext(ctx); return err }, nil
}
