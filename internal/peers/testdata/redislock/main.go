// Redislock looks at a lease while it is being renewed and released.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(addr string) error {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	locks, err := redislock.New(client)
	if err != nil {
		return err
	}
	defer locks.Close()
	const ttl = time.Second
	lease, err := locks.Acquire(context.Background(), "key", lock.Options{TTL: ttl})
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for lease.Context().Err() == nil {
				_, _ = lease.Key(), lease.Fence()
				time.Sleep(100 * time.Microsecond)
			}
		})
	}
	time.Sleep(2 * ttl)
	if err := context.Cause(lease.Context()); err != nil {
		return fmt.Errorf("not renewed: %w", err)
	}
	released := make([]error, 3)
	for i := range released {
		all.Go(func() { released[i] = lease.Release(context.Background()) })
	}
	all.Wait()
	return released[0]
}
