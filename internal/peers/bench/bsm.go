package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
)

type bsm struct {
	client *redislock.Client
	ttl    time.Duration
}

func openBSM(s setup) (locker, error) {
	return bsm{redislock.New(s.client()), s.ttl}, nil
}

// Lock tries every 100 ms, as the package's example of waiting does; its default
// is not to wait at all. A shorter interval would show shorter waits, and more
// commands by the same factor.
func (l bsm) Lock(ctx context.Context, key string) (context.Context, func() error, error) {
	held, err := l.client.Obtain(ctx, key, l.ttl, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
	})
	if err != nil {
		return nil, nil, err
	}
	ctx = context.WithoutCancel(ctx) // it bounds the wait only
	return ctx, func() error { return held.Release(ctx) }, nil
}
