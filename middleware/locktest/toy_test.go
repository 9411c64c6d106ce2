package locktest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/locktest"
)

// A toy is a plain Locker on a backend that is a map. It keeps every promise,
// unless it is told to have a fault: then it breaks that one, as real ones do.
type toy struct {
	fault   string
	backend *backend

	mu    sync.Mutex
	lines map[string][]*caller // the first of a line has the turn

	tried context.Context // for faults
	count atomic.Uint64
}

type caller struct{ ready chan error }

func newToys(fault string) locktest.Fixture {
	b := &backend{fault: fault, records: make(map[string]*record), fences: make(map[string]uint64), marked: make(map[string]bool)}
	l := &toy{fault: fault, backend: b, lines: make(map[string][]*caller)}
	p := &toy{fault: fault, backend: b, lines: make(map[string][]*caller)}
	if fault == "each process has a backend of its own" {
		p.backend = newToys("").Locker.(*toy).backend
	}
	return locktest.Fixture{
		Locker: l, Peer: p,
		Lose:  b.lose,
		Break: func() { b.setAway(true) },
		Heal:  func() { b.setAway(false) },
	}
}

func (l *toy) has(fault string) bool { return l.fault == fault }

func (l *toy) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	if err := o.Check(); err != nil && !l.has("options are not checked") {
		return nil, err
	}
	if key == "" && !l.has("an empty key is a key") {
		return nil, errors.New("toy: empty key")
	}
	if l.has("a try ends with another") && o.Wait == 0 {
		l.mu.Lock()
		ctx, l.tried = cmp.Or(l.tried, ctx), ctx
		l.mu.Unlock()
	}
	if ctx.Err() != nil {
		switch l.fault {
		case "a done context is busy":
			return nil, &lock.BusyError{Err: lock.ErrBusy, Ahead: 1}
		case "the cause is not told":
			return nil, ctx.Err()
		}
		return nil, context.Cause(ctx)
	}
	o = o.WithDefaults()
	s := &toyLease{toy: l, name: key, ttl: max(o.TTL, time.Millisecond), stop: make(chan struct{}), stopped: make(chan struct{})}
	switch l.fault {
	case "one lock for all keys":
		key = "key"
	case "keys are cut to 16 bits":
		key = fmt.Sprint(crc32.ChecksumIEEE([]byte(key)) % (1 << 16))
	case "keys are made valid UTF-8":
		key = strings.ToValidUTF8(key, "\ufffd")
	case "a try waits":
		o.Wait = max(o.Wait, 5*time.Second)
	case "a wait is capped by the TTL":
		o.Wait = min(o.Wait, o.TTL)
	case "a wait takes too long":
		o.Wait *= 20
	}
	s.key = key

	deadline := time.Now().Add(o.Wait)
	if !l.has("nobody is excluded") && !(l.has("a try overtakes") && o.Wait == 0) {
		var err error
		if s.turn, err = l.enter(ctx, key, o); err != nil {
			return nil, err
		}
	}
	if err := l.contend(ctx, key, s, deadline); err != nil {
		return nil, err
	}
	switch l.fault {
	case "there are no fences":
		s.fence = 0
	case "fences are counted in the process":
		s.fence = l.count.Add(1)
	}
	return s.start(ctx), nil
}

// enter waits for the turn among the callers of this process.
func (l *toy) enter(ctx context.Context, key string, o lock.Options) (*caller, error) {
	c := &caller{ready: make(chan error, 1)}
	l.mu.Lock()
	line := l.lines[key]
	ahead := len(line)
	switch {
	case ahead > 0 && o.Wait == 0:
		l.mu.Unlock()
		if err := l.backend.ping(); err != nil && !l.has("away is busy") {
			return nil, err // who is ahead does not know yet either
		}
		return nil, &lock.BusyError{Err: lock.ErrBusy, Ahead: ahead}
	case ahead > o.MaxQueue && !l.has("the queue has no bound"):
		l.mu.Unlock()
		return nil, &lock.BusyError{Err: lock.ErrQueueFull, Ahead: ahead}
	}
	l.lines[key] = append(line, c)
	l.mu.Unlock()
	if ahead == 0 {
		return c, nil
	}

	timer := time.NewTimer(o.Wait)
	defer timer.Stop()
	select {
	case err := <-c.ready:
		if err != nil {
			return nil, err
		}
		if l.has("who leaves as its turn comes keeps it") {
			time.Sleep(100 * time.Microsecond) // it is slow to see which came first
		}
		if ctx.Err() == nil {
			return c, nil
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	switch {
	case l.has("who leaves keeps its place"):
	case l.has("who leaves as its turn comes keeps it") && l.first(key) == c:
	default:
		l.leave(key, c)
	}
	if ctx.Err() == nil || l.has("a cancelled waiter is busy") {
		return nil, &lock.BusyError{Err: lock.ErrBusy, Ahead: ahead}
	}
	return nil, context.Cause(ctx)
}

// leave takes a caller out of its line, and gives the next its turn if it was
// the first.
func (l *toy) leave(key string, c *caller) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.lines[key]
	i := slices.Index(line, c)
	if l.has("each release passes the turn") && i < 0 {
		i = 0
	}
	if i < 0 || len(line) == 0 {
		return
	}
	line = slices.Delete(line, i, i+1)
	if last := len(line) - 1; i == 0 && last >= 0 {
		if l.has("the last comes first") {
			line[0], line[last] = line[last], line[0]
		}
		line[0].ready <- nil
	}
	l.lines[key] = line
}

// fail gives everyone behind c what c has found out.
func (l *toy) fail(key string, c *caller, err error) {
	if c == nil || l.has("a failure is the head's alone") {
		l.leave(key, c)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.lines[key] {
		if w != c {
			w.ready <- err
		}
	}
	delete(l.lines, key)
}

// contend asks the backend until the key is free.
func (l *toy) contend(ctx context.Context, key string, s *toyLease, deadline time.Time) error {
	for {
		err := l.backend.take(key, s)
		gone := ctx.Err() != nil && !l.has("a contender is deaf")
		switch {
		case err == nil && !gone:
			return nil
		case err == nil && !l.has("a cancelled acquire stays held"):
			_ = l.backend.leave(key, s)
		case errors.Is(err, lock.ErrUnavailable) && !gone && !l.has("away is busy") && !l.has("away is waited out"):
			l.fail(key, s.turn, err)
			return err
		}
		if gone {
			l.leave(key, s.turn)
			return context.Cause(ctx)
		}
		if !time.Now().Before(deadline) {
			l.leave(key, s.turn)
			return &lock.BusyError{Err: lock.ErrBusy, Ahead: 1}
		}
		time.Sleep(min(time.Millisecond, time.Until(deadline)))
	}
}

func (l *toy) Interrupt(_ context.Context, key string) (bool, error) {
	if key == "" {
		return false, errors.New("toy: the key is empty")
	}
	switch l.fault {
	case "an interrupt never arrives":
		return true, nil
	case "an interrupt takes the key away":
		l.backend.lose(key)
		return true, nil
	case "an interrupt stays in its process":
		if l.first(key) == nil {
			return false, nil
		}
	case "an interrupt ends the waits":
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, w := range l.lines[key][1:] {
			w.ready <- lock.ErrInterrupted
		}
		l.lines[key] = l.lines[key][:1]
	}
	held, err := l.backend.interrupt(key)
	return held || err == nil && l.has("an interrupt of a free key is told as done"), err
}

func (l *toy) first(key string) *caller {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line := l.lines[key]; len(line) > 0 {
		return line[0]
	}
	return nil
}

// TestSuite is the control: a toy with no fault passes. TestFaults runs it in
// a child process with one.
func TestSuite(t *testing.T) {
	locktest.Run(t, func(*testing.T) locktest.Fixture { return newToys(faultOfThisProcess()) })
}
