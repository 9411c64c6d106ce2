package join_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/memlock"
)

type wrapper = func(http.Handler) http.Handler

// ways of sharing a response, beside each other.
var ways = []struct {
	name string
	new  func() wrapper
}{
	{"join", func() wrapper { return joining() }},
	{"singleflight", func() wrapper { return buffering(byUser) }},
}

// A request is done when the response has ended. wrote, which may be nil, is called with
// the number of bytes whenever there are more. role is what the response says of itself.
type request func(wrote func(n int)) (role string)

// doors are how requests come to a handler.
var doors = []struct {
	name string
	open func(testing.TB, http.Handler) request
}{
	{"calls", calls},
	{"http", loopback},
}

func calls(_ testing.TB, h http.Handler) request {
	return func(wrote func(int)) string {
		w := &light{header: make(http.Header), wrote: wrote}
		h.ServeHTTP(w, ask("/"))
		return w.header.Get(middleware.RoleHeader)
	}
}

func loopback(t testing.TB, h http.Handler) request {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	t.Cleanup(transport.CloseIdleConnections)
	buffers := sync.Pool{New: func() any { return new([64 << 10]byte) }}
	return func(wrote func(int)) string {
		r := ask(server.URL)
		r.RequestURI = "" // it is a client's
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return ""
		}
		defer resp.Body.Close()
		p := buffers.Get().(*[64 << 10]byte)
		defer buffers.Put(p)
		for {
			n, err := resp.Body.Read(p[:])
			if n > 0 && wrote != nil {
				wrote(n)
			}
			switch err {
			case nil:
			case io.EOF:
				return resp.Header.Get(middleware.RoleHeader)
			default:
				return "broken off"
			}
		}
	}
}

// beside runs f for each way through each door. serve has a handler's response shared.
func beside(b *testing.B, f func(b *testing.B, serve func(http.HandlerFunc) request)) {
	for _, d := range doors {
		for _, way := range ways {
			b.Run(d.name+"/"+way.name, func(b *testing.B) {
				f(b, func(h http.HandlerFunc) request { return d.open(b, way.new()(h)) })
			})
		}
	}
}

// BenchmarkRequests is how many equal requests of 1,000 clients are answered, each of which
// asks again at once, by a handler that takes 5 ms for 4 KiB.
func BenchmarkRequests(b *testing.B) {
	const clients = 1000
	body := strings.Repeat("x", 4<<10)
	beside(b, func(b *testing.B, serve func(http.HandlerFunc) request) {
		do := serve(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(5 * time.Millisecond)
			_, _ = io.WriteString(w, body)
		})
		var joined atomic.Int64
		b.SetParallelism(clients / runtime.GOMAXPROCS(0))
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if do(nil) == "joined" {
					joined.Add(1)
				}
			}
		})
		b.ReportMetric(float64(joined.Load())/b.Elapsed().Seconds(), "joined/s")
		b.ReportMetric(float64(int64(b.N)-joined.Load())/b.Elapsed().Seconds(), "runs/s")
	})
}

// BenchmarkFirstByte is when a follower that comes after the first of 20 tokens, which are
// 5 ms apart, has its first byte, and its last.
func BenchmarkFirstByte(b *testing.B) {
	beside(b, func(b *testing.B, serve func(http.HandlerFunc) request) {
		var begun chan struct{}
		do := serve(func(w http.ResponseWriter, _ *http.Request) {
			for i := range 20 {
				if i > 0 {
					time.Sleep(5 * time.Millisecond)
				}
				_, _ = io.WriteString(w, "data: token\n\n")
				w.(http.Flusher).Flush()
				if i == 0 {
					close(begun)
				}
			}
		})
		var first, last time.Duration
		for b.Loop() {
			begun = make(chan struct{})
			var leader sync.WaitGroup
			leader.Go(func() { do(nil) })
			<-begun
			came, got := time.Now(), false
			if role := do(func(int) {
				if !got {
					got = true
					first += time.Since(came)
				}
			}); role != "joined" {
				b.Fatal(role)
			}
			last += time.Since(came)
			leader.Wait()
		}
		b.ReportMetric(first.Seconds()*1e3/float64(b.N), "ms-first-byte")
		b.ReportMetric(last.Seconds()*1e3/float64(b.N), "ms-last-byte")
	})
}

// BenchmarkFollowers is what 1,000 followers of a stream of 100 KiB have in memory in the
// middle of it, when all there is has been sent.
func BenchmarkFollowers(b *testing.B) {
	const followers, bytes = 1000, 100 << 10
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			measure := held
			if way.name == "singleflight" {
				measure = heldUnseen
			}
			var alone, all memory
			measure(way.new(), followers, bytes)
			for b.Loop() {
				one, many := measure(way.new(), 0, bytes), measure(way.new(), followers, bytes)
				alone.heap, alone.stacks = alone.heap+one.heap, alone.stacks+one.stacks
				all.heap, all.stacks = all.heap+many.heap, all.stacks+many.stacks
			}
			n := float64(b.N)
			b.ReportMetric(float64(all.heap-alone.heap)/n/followers, "heapB/follower")
			b.ReportMetric(float64(all.all()-alone.all())/n/followers, "heap+stackB/follower")
			b.ReportMetric(float64(all.all())/n/1024, "KiB-in-all")
			b.ReportMetric(float64(alone.all())/n/1024, "KiB-alone")
		})
	}
}

// heldUnseen is held for followers that get nothing before the end, and are only known to
// wait by having come a while ago.
func heldUnseen(guard wrapper, followers, bytes int) memory {
	before := inUse()
	var everyone sync.WaitGroup
	leads, written, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	handler := guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(leads)
		token := make([]byte, 1<<10)
		for range bytes / len(token) {
			_, _ = w.Write(token)
		}
		close(written)
		<-stopped
	}))
	enter := func() {
		r, w := ask("/"), &light{header: make(http.Header)}
		everyone.Go(func() { handler.ServeHTTP(w, r) })
	}
	enter()
	<-leads
	for range followers {
		enter()
	}
	<-written
	time.Sleep(100 * time.Millisecond)
	after := inUse()
	close(stopped)
	everyone.Wait()
	return memory{after.heap - before.heap, after.stacks - before.stacks}
}

// BenchmarkLargeResponse sends 50 MiB, in writes of 32 KiB, to clients that ask at the same
// time: without a guard, with one that has them wait for each other, and with join. What is
// sent is counted once for each client.
func BenchmarkLargeResponse(b *testing.B) {
	const size, clients = 50 << 20, 10
	plain := httplock.New(memlock.New(), byUser, middleware.WithWait(time.Minute))
	for _, c := range []struct {
		name    string
		clients int
		guard   wrapper
		joined  bool
	}{
		{"1/none", 1, func(h http.Handler) http.Handler { return h }, false},
		{"1/guard", 1, plain, false},
		{"1/join", 1, joining(), false},
		{"10/none", clients, func(h http.Handler) http.Handler { return h }, false},
		{"10/guard", clients, plain, false},
		{"10/join", clients, joining(), true},
	} {
		b.Run(c.name, func(b *testing.B) {
			var there *sync.WaitGroup // clients that have the first byte
			p := make([]byte, 32<<10)
			do := loopback(b, c.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write(p)
				w.(http.Flusher).Flush()
				if c.joined {
					there.Wait()
				}
				for range size/len(p) - 1 {
					if _, err := w.Write(p); err != nil {
						return
					}
				}
			})))
			b.SetBytes(size * int64(c.clients))
			broken := 0
			for b.Loop() {
				there = new(sync.WaitGroup)
				there.Add(c.clients)
				var everyone sync.WaitGroup
				var short atomic.Int32
				for range c.clients {
					everyone.Go(func() {
						got := 0
						do(func(n int) {
							if got == 0 {
								there.Done()
							}
							got += n
						})
						if got != size {
							short.Add(1)
						}
					})
				}
				everyone.Wait()
				broken += int(short.Load())
			}
			b.ReportMetric(float64(broken)/float64(b.N), "broken-off/op")
		})
	}
}

// BenchmarkTokens sends 1,000 tokens, each flushed, to one client and to its followers.
func BenchmarkTokens(b *testing.B) {
	const tokens = 1000
	for _, d := range doors {
		for _, clients := range []int{1, 10, 100, 1000} {
			b.Run(d.name+"/"+strconv.Itoa(clients), func(b *testing.B) {
				var there *sync.WaitGroup
				do := d.open(b, joining()(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					for i := range tokens {
						_, _ = io.WriteString(w, "data: {\"delta\":\"a token of some length\"}\n\n")
						w.(http.Flusher).Flush()
						if i == 0 {
							there.Wait()
						}
					}
				})))
				for b.Loop() {
					there = new(sync.WaitGroup)
					there.Add(clients)
					var everyone sync.WaitGroup
					for range clients {
						everyone.Go(func() {
							got := false
							do(func(int) {
								if !got {
									got = true
									there.Done()
								}
							})
						})
					}
					everyone.Wait()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tokens/float64(clients), "ns/token-client")
			})
		}
	}
}
