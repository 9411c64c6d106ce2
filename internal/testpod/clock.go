package main

import (
	"sync"
	"time"
)

// A clock notices that the process was stopped.
type clock struct {
	mu   sync.Mutex
	woke time.Time
}

// watch starts a clock that counts as a stop what is longer than gap.
func watch(gap time.Duration) *clock {
	c := new(clock)
	go func() { // as long as the process
		last := time.Now()
		for range time.Tick(time.Millisecond) {
			now := time.Now()
			if now.Sub(last) > gap {
				c.mu.Lock()
				c.woke = now
				c.mu.Unlock()
			}
			last = now
		}
	}()
	return c
}

// since returns how long ago the process woke from its last stop; 0 where that
// has not been noticed yet.
func (c *clock) since() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.woke.IsZero() {
		return 0
	}
	return time.Since(c.woke)
}
