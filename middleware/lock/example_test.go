package lock_test

import (
	"context"
	"fmt"

	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

func ExampleAcquireAll() {
	ctx := context.Background()
	locks := memlock.New() // or a redislock
	leases, err := lock.AcquireAll(ctx, locks, []string{"account:9", "account:4"}, lock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range leases {
		defer l.Release(ctx)
		fmt.Println(l.Key())
	}
	work := leases[len(leases)-1].Context() // ends when any of them does
	fmt.Println(work.Err())
	// Output:
	// account:4
	// account:9
	// <nil>
}
