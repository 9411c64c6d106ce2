package lock

import (
	"context"
	"log/slog"
	"time"
)

// An Observer is told what happens. It is called on the goroutine that the
// event happens on, with [Overran] on one of its own, so it must be quick, must
// not block and must be safe for concurrent use. Type switches on the event tell what it is; ignore those
// that you do not know, more come with time.
type Observer func(context.Context, Event)

// An Event is one of the types of this package that say so.
//
// A guard (package middleware) tells of requests: [Acquired], [Denied],
// [Abandoned], [Overran], [Released], [Joined]; and of what it does without its Locker:
// [FallbackBegan], [FallbackEnded]. A Locker tells of its own state: [Lost],
// [BackendFailed], [BackendRecovered], [KeptBack], [Degraded].
type Event interface{ event() }

type (
	// Acquired: a request holds its key and its handler starts.
	Acquired struct {
		Key   string
		Fence uint64
		Wait  time.Duration // from the request's arrival

		Fallback bool // it is the fallback's: see FallbackBegan
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

	// Overran: a handler has held its key for as long as it may, and is asked to
	// stop. The key stays held until it returns, which a handler that does not
	// care for its context may never do.
	Overran struct {
		Key   string
		Fence uint64
		Hold  time.Duration // what it was allowed
	}

	// Released: a handler has returned and the key was given back.
	Released struct {
		Key   string
		Fence uint64
		Hold  time.Duration // from Acquired
		Err   error         // what Release returned, such as ErrExpired
	}

	// Joined: a request was answered with the response to an equal one that was in
	// flight; no handler ran for it.
	Joined struct {
		Key  string
		Took time.Duration // from the request's arrival to the response's end
		Err  error         // why that was broken off; nil: it is complete
	}

	// FallbackBegan: the guard's Locker is unavailable, and requests run with the
	// guard's fallback. Sent once per guard and outage, with the first of them; an
	// outage of which a guard has met nothing for a minute is over.
	FallbackBegan struct {
		Route    string // of that request: http.Request.Pattern, or method and path without one
		Fallback string // "lock.Open", or the package of the Locker that stands in
		Err      error  // what the Locker said
	}

	// FallbackEnded: the guard's Locker has answered a request, a second or more after
	// it was last unavailable. A guard that has no requests does not notice.
	FallbackEnded struct {
		Route    string // as in FallbackBegan
		Fallback string
		Requests int           // that ran with it, but for those of this moment
		After    time.Duration // since FallbackBegan
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

	// KeptBack: the backend was restarted and may have forgotten who holds what.
	// For as long as those may not have noticed, free keys are given to nobody;
	// a request that is not willing to wait as long is turned away.
	KeptBack struct {
		Backend string        // as BackendFailed names it
		For     time.Duration // from now on, at least
	}

	// Degraded: the backend refuses something that the Locker can do without, at
	// a price. Sent once for each such thing. Err names the server, the reason,
	// the price and what to allow.
	Degraded struct{ Err error }
)

func (Acquired) event()         {}
func (Denied) event()           {}
func (Abandoned) event()        {}
func (Overran) event()          {}
func (Released) event()         {}
func (Joined) event()           {}
func (FallbackBegan) event()    {}
func (FallbackEnded) event()    {}
func (Lost) event()             {}
func (BackendFailed) event()    {}
func (BackendRecovered) event() {}
func (KeptBack) event()         {}
func (Degraded) event()         {}

// LogTo returns an Observer that writes events to log, nil being
// [slog.Default]. As warnings: what an operator must act on, that is a lost
// lease, a backend that cannot be asked, was restarted or refuses something, a
// fallback that stands in, a key function that fails and a handler that runs for
// too long. The end of an outage and of a fallback is information, everything
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
			l.Log(ctx, level, "reqlock: acquired", "key", e.Key, "fence", e.Fence, "wait", e.Wait, "fallback", e.Fallback)
		case Denied:
			l.Log(ctx, level, "reqlock: denied", "key", e.Key, "reason", e.Reason, "wait", e.Wait, "err", e.Err)
		case Abandoned:
			l.Log(ctx, level, "reqlock: the client left while waiting", "key", e.Key, "wait", e.Wait)
		case Overran:
			l.Log(ctx, level, "reqlock: the handler runs for too long and is asked to stop", "key", e.Key, "fence", e.Fence, "hold", e.Hold)
		case Released:
			l.Log(ctx, level, "reqlock: released", "key", e.Key, "fence", e.Fence, "hold", e.Hold, "err", e.Err)
		case Joined:
			l.Log(ctx, level, "reqlock: joined", "key", e.Key, "took", e.Took, "err", e.Err)
		case FallbackBegan:
			l.Log(ctx, level, "reqlock: requests run with the fallback", "route", e.Route, "fallback", e.Fallback, "err", e.Err)
		case FallbackEnded:
			l.Log(ctx, level, "reqlock: requests do without the fallback again", "route", e.Route, "fallback", e.Fallback, "requests", e.Requests, "after", e.After)
		case Lost:
			l.Log(ctx, level, "reqlock: lease lost", "key", e.Key, "fence", e.Fence, "err", e.Err)
		case BackendFailed:
			l.Log(ctx, level, "reqlock: backend unavailable", "err", e.Err)
		case BackendRecovered:
			l.Log(ctx, level, "reqlock: backend available again", "backend", e.Backend, "after", e.After)
		case KeptBack:
			l.Log(ctx, level, "reqlock: backend restarted, free keys are kept back", "backend", e.Backend, "for", e.For)
		case Degraded:
			l.Log(ctx, level, "reqlock: backend restricted", "err", e.Err)
		}
	}
}

func levelOf(e Event) slog.Level {
	switch e := e.(type) {
	case Overran, FallbackBegan, Lost, BackendFailed, KeptBack, Degraded:
		return slog.LevelWarn
	case FallbackEnded, BackendRecovered:
		return slog.LevelInfo
	case Denied:
		if e.Reason == "key_failed" {
			return slog.LevelWarn
		}
	}
	return slog.LevelDebug
}
