package middleware

import (
	"sync"
	"time"
)

// Below a second Retry-After cannot say it; above a minute some clients ignore
// it and others sleep for as long as they are told.
const (
	minRetryAfter = time.Second
	maxRetryAfter = time.Minute
)

// holdTime estimates how long a holder holds its key: the smoothed mean plus
// four times the mean deviation, as TCP estimates when to send again (Jacobson
// and Karels, Congestion Avoidance and Control, 1988, with the gains of RFC
// 6298). That follows a change within some ten requests and is seldom too
// short, which a plain mean is half of the time.
//
// The zero value is ready to use; methods may be called concurrently.
type holdTime struct {
	mu        sync.Mutex
	known     bool
	mean, dev time.Duration
}

func (h *holdTime) observe(hold time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.known {
		h.known, h.mean, h.dev = true, hold, hold/2
		return
	}
	diff := hold - h.mean
	h.mean += diff / 8
	h.dev += (diff.Abs() - h.dev) / 4
}

// estimate returns when a request with so many ahead of it is likely to find
// its key free, unclamped by the minimum; 0 where nothing is known yet.
func (h *holdTime) estimate(ahead int) time.Duration {
	h.mu.Lock()
	one := h.mean + 4*h.dev
	h.mu.Unlock()
	if one <= 0 {
		return 0
	}
	if ahead = max(ahead, 1); ahead > int(maxRetryAfter/one) {
		return maxRetryAfter // also where the product would overflow
	}
	return one * time.Duration(ahead)
}
