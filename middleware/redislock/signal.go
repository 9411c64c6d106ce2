package redislock

import "sync"

// A signal is off or on, and can be waited for.
type signal struct {
	mu sync.Mutex
	ch chan struct{} // closed while it is on
}

func newSignal() *signal { return &signal{ch: make(chan struct{})} }

// wait returns a channel that is closed once the signal is on.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ch
}

func (s *signal) on() bool {
	select {
	case <-s.wait():
		return true
	default:
		return false
	}
}

// set turns it on or off, and says whether it was not before.
func (s *signal) set(on bool) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ch:
		if !on {
			s.ch = make(chan struct{})
		}
		return !on
	default:
		if on {
			close(s.ch)
		}
		return on
	}
}
