package middleware

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// A Sharer has equal requests that are in flight at the same time share one response.
// Package join has one. All methods may be called concurrently.
type Sharer interface {
	// Share either leads: it calls c.Lead, on its caller's goroutine, with what the
	// response is to be written to and with a request whose context does not end because
	// the client of r has left, but when nobody waits for the response any more. Or it
	// follows: it writes to w the response of another call with the same work, live.
	// led says which.
	//
	// Leading, it returns the error that c.Lead returned, or [ErrBrokenOff] where w's
	// client has not got all of the response. What c.Lead panics with goes on to the
	// caller.
	//
	// Following, it calls c.Joined before it writes anything to w. Where the error is not
	// ErrBrokenOff it has written nothing: [ErrNotShared], [ErrNotStarted],
	// [ErrRunFailed], the cause of r's context, or the error of the Lead that was followed.
	//
	// Nobody joins a call that has stopped: see [Run].
	Share(w http.ResponseWriter, r *http.Request, c Call) (led bool, err error)
}

// A Call is a request that may share its response.
type Call struct {
	Work   string    // what requests have in common that may share
	Until  time.Time // a call whose handler has not started by then is not followed any more
	Joined func()
	Lead   func(w http.ResponseWriter, r *http.Request, run Run) error
}

// A Run is told by the leader how far it is.
type Run interface {
	Started() // the handler runs
	Stopped() // the handler is asked to stop: what it still writes is for those who follow already
}

// What Share returns.
var (
	// ErrNotShared: others may not have the response, each is to run for itself. Lead
	// returns it, too.
	ErrNotShared = errors.New("middleware: the response is not for others")
	// ErrNotStarted: see Until of a Call.
	ErrNotStarted = errors.New("middleware: the handler that was to answer has not started")
	// ErrRunFailed: the handler has panicked.
	ErrRunFailed = errors.New("middleware: the handler that was to answer has panicked")
	// ErrBrokenOff: the response was begun and can't be ended. Lead returns it, too.
	ErrBrokenOff = errors.New("middleware: the response is broken off")
)

// RoleHeader is set by a guard [WithJoin]: see there.
const RoleHeader = "X-Reqlock"

// The values of RoleHeader.
const (
	roleLeader = "leader"
	roleQueued = "queued"
	roleJoined = "joined"
)

// WithJoin has equal requests share one response while the first of them is in flight:
// those that come later wait for neither the key nor a handler, and are sent what the
// handler of the first one writes, as it does. By default each request runs for itself, one
// at a time. See package join, which has the Sharer.
//
// Requests are equal that have the same key, method, Origin and fingerprint: see
// [WithFingerprint]. To tell them apart the body is read before the handler runs: see
// [WithMaxBody]. Those with a Range, an If-… or an Upgrade header always run for
// themselves.
//
// The header X-Reqlock of a response says where it comes from: "leader" is of a handler
// that ran at once, "queued" of one whose request had to wait for another, "joined" of
// another request's. Denials have none. See [WithoutRoleHeader].
//
// [WithWait] is for the key only: a request that has joined a handler which runs waits for
// as long as that takes, and where the response is not for it after all, then for the key.
// The handler runs with what the context of the first request has. What ends that, but for
// a client that leaves, ends the handler, for all.
//
// Guards of the same Locker may have one Sharer in common, unless the same URL leads to
// different handlers.
//
// A guard inside of one that shares its response, or that has the same Sharer, does not
// share again.
func WithJoin(s Sharer) Option {
	return func(c *config) error {
		c.sharer = s
		if isNil(s) {
			return errors.New("middleware: WithJoin: the Sharer is nil")
		}
		return nil
	}
}

// WithoutRoleHeader has no response say X-Reqlock. It does nothing without [WithJoin].
func WithoutRoleHeader() Option {
	return func(c *config) error {
		c.noRole = true
		return nil
	}
}

// WithMaxBody sets up to how many bytes a body is read to find equal requests. One that is
// longer, or that does not declare its length and was not read by the key function, is
// left alone: its request runs for itself. The default is [keyfuncs.MaxBody], 1 MiB; 0
// shares the responses of requests without a body only. So many bytes are in memory for
// each request. It does nothing without [WithJoin].
func WithMaxBody(n int64) Option {
	return func(c *config) error {
		c.maxBody = n
		if n < 0 {
			return fmt.Errorf("middleware: WithMaxBody: %d: must not be negative", n)
		}
		return nil
	}
}
