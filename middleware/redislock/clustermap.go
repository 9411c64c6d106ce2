package redislock

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// run keeps the map of the slots fresh, until the Locker is closed.
func (c *cluster) run() {
	for {
		_ = c.load(context.Background())
		if c.locker.sleep(context.Background(), refreshPause) != nil {
			return
		}
		timer := time.NewTimer(refreshEvery)
		select {
		case <-timer.C:
		case <-c.doubted:
		case <-c.locker.closed:
		}
		timer.Stop()
	}
}

func (c *cluster) doubt() {
	select {
	case c.doubted <- struct{}{}:
	default:
	}
}

// load asks for the map of the slots, for callTimeout at most, and shares the answer.
func (c *cluster) load(ctx context.Context) error {
	loaded := c.loading.DoChan("", func() (any, error) { return nil, c.refresh() })
	timer := time.NewTimer(callTimeout)
	defer timer.Stop()
	select {
	case l := <-loaded:
		return l.Err
	case <-timer.C:
		return context.DeadlineExceeded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// loadFirst is load for who needs the map, and has none.
func (c *cluster) loadFirst(ctx context.Context) error {
	if c.breaker.open.on() {
		return c.breaker.err()
	}
	start := time.Now()
	err := c.load(ctx)
	switch {
	case err == nil || err == errClosed:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if unreachable(err) {
		c.breaker.missed(start, err)
	}
	c.health.report(ctx, failed(sign, err)) // a refresh that takes longer has not told yet
	return unavailable(err)
}

// refresh asks for the map. Where nobody answers, go-redis returns the one of before, if
// there is one, as if it were new: of those outages the servers' own health tells.
func (c *cluster) refresh() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return errClosed
	}
	c.running.Add(1)
	c.mu.Unlock()
	defer c.running.Done()
	ctx, cancel := context.WithTimeout(c.refreshing, refreshBound)
	defer cancel()
	var mu sync.Mutex
	var addrs []string
	// Before it calls anybody, it asks for the map.
	err := c.slots.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		addrs = append(addrs, node.Options().Addr)
		return nil
	})
	if c.locker.isClosed() {
		return errClosed
	}
	if err != nil {
		c.health.report(ctx, failed(sign, err))
		return err
	}
	c.breaker.heard()
	c.health.report(ctx, result{op: sign, outcome: done})
	c.note(addrs)
	c.known.Store(true)
	return nil
}

// note takes the addresses of the masters. Where there is a new one, leases may have
// another home, and be unknown there: all are extended at once.
func (c *cluster) note(addrs []string) {
	now := time.Now()
	added := false
	var old, retired []*server
	c.mu.Lock()
	for _, addr := range addrs {
		if m, ok := c.masters[addr]; ok {
			m.seen = now
			m.health.retired.Store(false)
			continue
		}
		c.add(addr, now)
		added = c.known.Load()
	}
	for addr, m := range c.masters {
		used := m.used.Swap(false)
		switch {
		case m.seen.Equal(now):
			continue
		case used: // who is told that a key has moved may be ahead of the map
			m.seen = now
			continue
		case now.Sub(m.seen) > keepMaster:
			delete(c.masters, addr)
			old = append(old, m.server)
		}
		retired = append(retired, m.server)
		for _, other := range c.masters { // one of which has its slots
			if other.seen.Equal(now) {
				other.restarts.inherit(m.restarts)
			}
		}
	}
	c.mu.Unlock()
	for _, on := range retired {
		on.health.retire()
	}
	for _, on := range old {
		_ = on.close()
	}
	if added {
		c.locker.renewals.hurry(nil)
	}
}
