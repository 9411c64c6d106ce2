package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"
)

// workerFlag comes before the task, in JSON, where this program is a worker.
const workerFlag = "-worker"

// A task is what a worker, a process of the benchmark, does.
type task struct {
	Peer   string
	Redis  string
	TTL    time.Duration
	Pool   int    // see setup
	NoLoop bool   // see setup
	Load   string // one of loads
	Name   string // what the names of its keys begin with

	Keys       int
	Goroutines int
	OwnKeys    bool          // for each goroutine, not for all together
	Hold       time.Duration // of one lock
	Settle     time.Duration // before commands are counted
	Time       time.Duration // how long new locks are asked for, one of a crowd waits, or commands are counted
	Patience   time.Duration // how long those are waited for who wait after that
}

// A message is what a worker writes to its output; what it reads are the words
// "go" and "end".
type message struct {
	Is     string // "ready", "start" (it holds its keys), "counted" or "report"
	Report report `json:"Report,omitzero"`
}

type report struct {
	Holds       []hold
	GivenUp     []int64 // how long those had waited whom Lock failed
	Failures    int     // of Lock and unlock
	Failure     string  // one of them
	Sent, Pings int64
	Before      int64 // sent before Settle was over

	Took       time.Duration // until Lock had answered all
	Lost       int           // locks, while they were held
	CPU        time.Duration // used while commands were counted
	Goroutines int           // when they had been counted
}

var loads = map[string]func(*worker){
	"contend": (*worker).contend,
	"relay":   (*worker).relay,
	"keep":    (*worker).keep,
	"wait":    (*worker).wait,
	"leases":  (*worker).leases,
	"crowd":   (*worker).crowd,
}

type worker struct {
	task
	locker locker
	wire   wire
	words  chan string
	out    *json.Encoder

	mu     sync.Mutex
	report report
}

// work does a task. It does not return: the process ends when the benchmark
// closes its input, by intent or because it has died.
func work(raw string) {
	signal.Ignore(os.Interrupt) // Ctrl-C reaches all; the benchmark ends its workers
	w := &worker{words: make(chan string, 8), out: json.NewEncoder(os.Stdout)}
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			w.words <- in.Text()
		}
		os.Exit(0)
	}()
	if err := w.open(raw); err != nil {
		fmt.Fprintln(os.Stderr, "bench: worker:", err)
		os.Exit(1)
	}
	w.say("ready")
	loads[w.Load](w)
	_ = w.out.Encode(message{"report", w.report})
	select {}
}

// open makes the locker and locks once in each goroutine, so that connections
// are open and scripts are known. Where that fails the load will tell.
func (w *worker) open(raw string) error {
	if err := json.Unmarshal([]byte(raw), &w.task); err != nil {
		return err
	}
	all := append(slices.Clone(peers), limit)
	p := all[slices.IndexFunc(all, func(p peer) bool { return p.name == w.Peer })]
	var err error
	if w.locker, err = p.open(setup{w.Redis, w.TTL, w.Pool, w.NoLoop, &w.wire}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.Patience)
	defer cancel()
	var warm sync.WaitGroup
	for g := range w.Goroutines {
		warm.Go(func() {
			if _, unlock, err := w.locker.Lock(ctx, fmt.Sprintf("%s:warm:%d:%d", w.Name, os.Getpid(), g)); err == nil {
				_ = unlock()
			}
		})
	}
	warm.Wait()
	return nil
}

func (w *worker) say(is string) { _ = w.out.Encode(message{Is: is}) }

// lock holds a key for as long as held takes.
func (w *worker) lock(ctx context.Context, key int, held func()) bool {
	t, err := w.take(ctx, key)
	if err != nil {
		w.fail(err)
		return false
	}
	held()
	w.give(t)
	return true
}

// A taken key is one that the worker holds.
type taken struct {
	hold   hold
	held   context.Context
	unlock func() error
}

// take locks a key. It is for the caller to say whether an error is a failure.
func (w *worker) take(ctx context.Context, key int) (taken, error) {
	h := hold{Key: key, Asked: time.Now().UnixNano()}
	held, unlock, err := w.locker.Lock(ctx, fmt.Sprintf("%s:%d", w.Name, key))
	h.From = time.Now().UnixNano()
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.report.GivenUp = append(w.report.GivenUp, h.From-h.Asked)
	}
	return taken{h, held, unlock}, err
}

// give unlocks what take has locked.
func (w *worker) give(t taken) {
	t.hold.To = time.Now().UnixNano()
	err := t.unlock()
	t.hold.Freed = time.Now().UnixNano()
	if err != nil {
		w.fail(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Holds = append(w.report.Holds, t.hold)
}

func (w *worker) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Failures++
	w.report.Failure = err.Error()
}
