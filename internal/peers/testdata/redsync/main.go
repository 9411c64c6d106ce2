// Redsync looks at when a lock runs out while it is being extended.
package main

import (
	"log"
	"os"
	"runtime"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Args[1]})
	defer client.Close()
	m := redsync.New(goredis.NewPool(client)).NewMutex("key")
	if err := m.Lock(); err != nil {
		log.Fatal(err)
	}
	extended := make(chan struct{})
	go func() {
		defer close(extended)
		for range 100 {
			if ok, err := m.Extend(); !ok {
				log.Print(err)
				return
			}
		}
	}()
	for {
		select {
		case <-extended:
			return
		default:
			_ = m.Until()
			runtime.Gosched()
		}
	}
}
