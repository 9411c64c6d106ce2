package main

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// An outage knows from the Locker's events whether there is one, for the page.
// Its methods may be called concurrently.
type outage struct {
	fallback fallback

	mu       sync.Mutex
	away     int       // servers that have failed and not recovered
	since    time.Time // the first of them failed
	keptBack time.Time // free keys are, until then
}

// observed returns an observer for the Locker, which hands all events on.
func (o *outage) observed(next lock.Observer) lock.Observer {
	return func(ctx context.Context, e lock.Event) {
		o.note(e)
		next(ctx, e)
	}
}

// note counts, since the events of several servers come in any order, and those
// of one may overtake each other.
func (o *outage) note(e lock.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch e := e.(type) {
	case lock.BackendFailed:
		if o.away++; o.away == 1 {
			o.since = time.Now()
		}
	case lock.BackendRecovered:
		o.away--
	case lock.KeptBack:
		if until := time.Now().Add(e.For); until.After(o.keptBack) {
			o.keptBack = until
		}
	}
}

// A status is what the page is told: no address, and no error.
type status struct {
	Redis    string   `json:"redis"`    // "ok", "away", "kept_back"
	Seconds  int      `json:"seconds"`  // that it has been away; that keys are still kept back
	Fallback fallback `json:"fallback"` // what messages do meanwhile
}

func (o *outage) status() status {
	o.mu.Lock()
	defer o.mu.Unlock()
	left := time.Until(o.keptBack)
	switch {
	case o.away > 0:
		return status{"away", int(time.Since(o.since).Seconds()), o.fallback}
	case left > 0:
		return status{"kept_back", int(math.Ceil(left.Seconds())), o.fallback}
	default:
		return status{"ok", 0, o.fallback}
	}
}
