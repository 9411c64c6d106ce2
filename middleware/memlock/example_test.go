package memlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

func Example() {
	ctx := context.Background()
	locks := memlock.New()

	first, err := locks.Acquire(ctx, "alice", lock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = locks.Acquire(ctx, "alice", lock.Options{}) // one try
	fmt.Println(errors.Is(err, lock.ErrBusy), err)

	_ = first.Release(ctx)
	fmt.Println(context.Cause(first.Context()))

	second, err := locks.Acquire(ctx, "alice", lock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Release(ctx)
	fmt.Println(second.Fence() > first.Fence())
	// Output:
	// true lock: held by somebody else (1 ahead)
	// lock: released
	// true
}
