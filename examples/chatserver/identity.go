package main

import (
	"cmp"
	"net/http"

	"github.com/reqlock/reqlock/keyfuncs"
)

const (
	userHeader    = "X-User-ID"
	sessionHeader = "X-Session-ID"
)

// sessionKey is what one message at a time goes for: a user's session.
//
// The user is whoever the request claims, or else whoever shares its address.
// Do neither in a service of your own: take the user from its authentication
// (ginlock.Value has what an earlier handler has set), without a FirstOf, and
// requests without one are refused.
//
// The session is the client's to choose, since it is one more part beside the
// user: a wrong one harms nobody else.
var sessionKey = keyfuncs.Join(
	keyfuncs.FirstOf(
		// Each source's name is part of the key, so that none can pass for
		// another: where a gateway sets the header, nobody gets into the way
		// of its user "alice" by writing "alice" into a body.
		from("header", keyfuncs.Header(userHeader)),
		from("token", keyfuncs.Bearer),
		from("body", keyfuncs.JSON("user")),
		from("address", keyfuncs.RemoteIP()),
	),
	keyfuncs.FirstOf(
		keyfuncs.Header(sessionHeader),
		keyfuncs.JSON("metadata.session_id"),
		keyfuncs.Const("default"),
	),
)

func from(source string, f keyfuncs.Func) keyfuncs.Func {
	return keyfuncs.Join(keyfuncs.Const(source), f)
}

// displayName is what the built-in model calls the user. It never is the bearer
// token, which is a secret.
func displayName(r *http.Request, bodyUser string) string {
	return cmp.Or(r.Header.Get(userHeader), bodyUser, "anonymous")
}
