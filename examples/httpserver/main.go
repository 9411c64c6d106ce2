// Httpserver takes payments for orders: one at a time for each order, however
// many copies of it run on one Redis.
//
//	go run ./examples/httpserver -redis localhost:6379
//	curl -X POST localhost:8081/orders/42/pay
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8081", "where to serve")
	addr := flag.String("redis", "", "the Redis that holds the locks, such as localhost:6379; without it they hold in this process only")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("unexpected argument %q", flag.Arg(0))
	}

	var locks lock.Locker = memlock.New()
	if *addr == "" {
		log.Print("no -redis: the locks hold in this process only")
	} else {
		rdb := redis.NewClient(&redis.Options{Addr: *addr})
		if err := rdb.Ping(context.Background()).Err(); err != nil {
			log.Fatalf("no Redis at %s: %v", *addr, err)
		}
		shared, err := redislock.New(rdb)
		if err != nil {
			log.Fatal(err)
		}
		defer shared.Close()
		locks = shared
	}

	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("try: curl -X POST http://%s/orders/42/pay", l.Addr())
	srv := &http.Server{Handler: newHandler(locks), ReadHeaderTimeout: 5 * time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	drained := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		stop() // a second signal ends at once
		log.Print("shutting down when all requests are answered")
		drained <- srv.Shutdown(context.Background())
	})
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	<-drained // the Locker is closed when no handler runs any more
}

func newHandler(locks lock.Locker) http.Handler {
	oneAtATime := httplock.New(locks, keyfuncs.Join(keyfuncs.Const("order"), keyfuncs.PathValue("order")))
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{order}/pay", oneAtATime(http.HandlerFunc(pay)))
	return mux
}

func pay(w http.ResponseWriter, r *http.Request) {
	// A lock alone cannot stop a holder that was suspended for so long that it
	// lost the lease without noticing. The fence can: it rises with each lease
	// of an order, and the table refuses whoever comes with a smaller one.
	//
	//	UPDATE orders SET paid = true, fence = $2
	//	WHERE id = $1 AND NOT paid AND fence <= $2
	lease, _ := lock.From(r.Context())
	select {
	case <-time.After(500 * time.Millisecond): // the bank
		fmt.Fprintf(w, "order %s: paid, fence %d\n", r.PathValue("order"), lease.Fence())
	case <-r.Context().Done(): // the client has gone, or the lease is lost: then the lock answers
	}
}
