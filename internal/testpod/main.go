// Testpod is one pod of a service, for tests that stop, continue and kill it:
//
//	testpod -redis host:port -ttl 1s
//	POST /{key}?work=10s
//
// holds the key for as long as the work takes. As it starts and as it ends, the
// handler notes its fence in a store that refuses one that is smaller than one
// it has seen, and keeps a ledger of all; both are in the same Redis. What happens
// is printed, a line each:
//
//	listening 127.0.0.1:1234
//	start fence=7 store=accepted
//	end fence=7 store=accepted
//	cut fence=7 store=refused at=1700000000000000000 cause=…
//	released fence=7 err=<nil>
//
// cut stands in the place of end where the context has ended before the work,
// at that many ns since 1970; such a handler answers nothing.
//
//	GET /cpu
//
// answers the CPU time that the process has used, as in "1.25s".
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

func main() {
	addr := flag.String("redis", "", "host:port of Redis")
	ttl := flag.Duration("ttl", time.Second, "TTL of a lease")
	flag.Parse()

	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	locks, err := redislock.New(rdb)
	if err != nil {
		log.Fatal(err)
	}
	guard := httplock.New(locks, keyfuncs.PathValue("key"), middleware.WithTTL(*ttl), middleware.WithWait(2*time.Minute), middleware.WithObserver(released))
	mux := http.NewServeMux()
	mux.Handle("POST /{key}", guard(pod{rdb}))
	mux.HandleFunc("GET /cpu", cpu)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening %s\n", listener.Addr())
	log.Fatal(http.Serve(listener, mux))
}

func cpu(w http.ResponseWriter, _ *http.Request) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = fmt.Fprint(w, time.Duration(used.Utime.Nano()+used.Stime.Nano()))
}

// released prints what became of a lease that was given back.
func released(_ context.Context, e lock.Event) {
	if e, ok := e.(lock.Released); ok {
		fmt.Printf("released fence=%d err=%v\n", e.Fence, e.Err)
	}
}

type pod struct{ rdb *redis.Client }

func (p pod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	work, err := time.ParseDuration(r.FormValue("work"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	lease, _ := lock.From(r.Context())
	fmt.Printf("start fence=%d store=%s\n", lease.Fence(), p.store(r.Context(), lease))
	finished := time.NewTimer(work)
	defer finished.Stop()
	select {
	case <-finished.C:
		fmt.Printf("end fence=%d store=%s\n", lease.Fence(), p.store(r.Context(), lease))
		_, _ = fmt.Fprintf(w, "fence=%d\n", lease.Fence())
	case <-r.Context().Done():
		at := time.Now()
		// What a handler does that does not care for its context.
		stored := p.store(context.WithoutCancel(r.Context()), lease)
		fmt.Printf("cut fence=%d store=%s at=%d cause=%v\n", lease.Fence(), stored, at.UnixNano(), context.Cause(r.Context()))
	}
}

// noteFence enters a fence into the ledger, and into the store unless that has
// seen a greater one.
var noteFence = redis.NewScript(`
redis.call('RPUSH', KEYS[2], ARGV[1])
if tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) > tonumber(ARGV[1]) then
  return 'refused'
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return 'accepted'`)

func (p pod) store(ctx context.Context, lease lock.Lease) string {
	answer, err := noteFence.Run(ctx, p.rdb, []string{"store:" + lease.Key(), "ledger:" + lease.Key()}, lease.Fence()).Text()
	if err != nil {
		return "failed"
	}
	return answer
}
