package main

import (
	"context"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

type reqlock struct {
	locks   *redislock.Locker
	options lock.Options
}

func openReqlock(s setup) (locker, error) {
	locks, err := redislock.New(s.client())
	return reqlock{locks, lock.Options{TTL: s.ttl, Wait: time.Minute, MaxQueue: 1 << 20}}, err
}

func (l reqlock) Lock(ctx context.Context, key string) (context.Context, func() error, error) {
	lease, err := l.locks.Acquire(ctx, key, l.options)
	if err != nil {
		return nil, nil, err
	}
	return lease.Context(), func() error { return lease.Release(ctx) }, nil
}
