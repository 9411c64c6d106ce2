package lock

import (
	"context"
	"log/slog"
	"time"
)

// An Observer is told what happens. It is called on the goroutine that the
// event happens on, so it must be quick, must not block and must be safe for
// concurrent use. Type switches on the event tell what it is; ignore those
// that you do not know, more come with time.
type Observer func(context.Context, Event)

// An Event is one of the types of this package that say so.
//
// A guard (package middleware) tells of requests: [Acquired], [Denied],
// [Abandoned], [Released]. A Locker tells of its own state: [Lost],
// [BackendFailed], [BackendRecovered], [Degraded].
type Event interface{ event() }

type (
	// Acquired: a request holds its key and its handler starts.
	Acquired struct {
		Key   string
		Fence uint64
		Wait  time.Duration // from the request's arrival
	}

	// Denied: a request was turned away, or its handler was cut off.
	Denied struct {
		Key    string // "" where none could be derived
		Reason string // a middleware.Reason, such as "busy"
		Wait   time.Duration
		Err    error // why; may be nil
	}

	// Abandoned: the client left before its turn came.
	Abandoned struct {
		Key  string
		Wait time.Duration
	}

	// Released: a handler has returned and the key was given back.
	Released struct {
		Key   string
		Fence uint64
		Hold  time.Duration // from Acquired
		Err   error         // what Release returned, such as ErrExpired
	}

	// Lost: a lease ended without its holder giving it back.
	Lost struct {
		Key   string
		Fence uint64
		Err   error // ErrExpired or ErrStolen
	}

	// BackendFailed: the backend cannot be asked any more. Sent once per
	// outage, not per request. Err names the server and the reason.
	BackendFailed struct{ Err error }

	// BackendRecovered: the backend answers again, or another has taken its place.
	BackendRecovered struct {
		Backend string        // as BackendFailed names it; "" where there is but one
		After   time.Duration // since BackendFailed
	}

	// Degraded: the backend refuses something that the Locker can do without, at
	// a price. Sent once for each such thing. Err names the server, the reason,
	// the price and what to allow.
	Degraded struct{ Err error }
)

func (Acquired) event()         {}
func (Denied) event()           {}
func (Abandoned) event()        {}
func (Released) event()         {}
func (Lost) event()             {}
func (BackendFailed) event()    {}
func (BackendRecovered) event() {}
func (Degraded) event()         {}

// LogTo returns an Observer that writes events to log, nil being
// [slog.Default]. As warnings: what an operator must act on, that is a lost
// lease, a backend that cannot be asked or refuses something, a key function that
// fails and a handler that runs for too long. A backend's return is information, everything
// else is at debug level. Keys may hold what identifies a user; they are logged
// as they are.
func LogTo(log *slog.Logger) Observer {
	return func(ctx context.Context, e Event) {
		l := log
		if l == nil {
			l = slog.Default()
		}
		level := levelOf(e)
		if !l.Enabled(ctx, level) {
			return // most events, on the path of every request
		}
		switch e := e.(type) {
		case Acquired:
			l.Log(ctx, level, "reqlock: acquired", "key", e.Key, "fence", e.Fence, "wait", e.Wait)
		case Denied:
			l.Log(ctx, level, "reqlock: denied", "key", e.Key, "reason", e.Reason, "wait", e.Wait, "err", e.Err)
		case Abandoned:
			l.Log(ctx, level, "reqlock: the client left while waiting", "key", e.Key, "wait", e.Wait)
		case Released:
			l.Log(ctx, level, "reqlock: released", "key", e.Key, "fence", e.Fence, "hold", e.Hold, "err", e.Err)
		case Lost:
			l.Log(ctx, level, "reqlock: lease lost", "key", e.Key, "fence", e.Fence, "err", e.Err)
		case BackendFailed:
			l.Log(ctx, level, "reqlock: backend unavailable", "err", e.Err)
		case BackendRecovered:
			l.Log(ctx, level, "reqlock: backend available again", "backend", e.Backend, "after", e.After)
		case Degraded:
			l.Log(ctx, level, "reqlock: backend restricted", "err", e.Err)
		}
	}
}

func levelOf(e Event) slog.Level {
	switch e := e.(type) {
	case Lost, BackendFailed, Degraded:
		return slog.LevelWarn
	case BackendRecovered:
		return slog.LevelInfo
	case Denied:
		if e.Reason == "key_failed" || e.Reason == "max_hold" {
			return slog.LevelWarn
		}
	}
	return slog.LevelDebug
}
