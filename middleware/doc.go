// Package middleware takes one HTTP request through a lock: it derives a key
// from the request, holds the key while the handler runs and gives it back
// whatever the handler does. Package httplock makes a net/http middleware of
// it, package ginlock a gin handler; most programs only take their options
// from here.
//
// # The way of a request
//
//  1. skip: OPTIONS, and whatever [WithSkip] says, goes straight through.
//  2. key: derived once. A request without one is turned away; it never
//     shares a default.
//  3. lock: waits its turn, at most [WithWait]. On HTTP/1 net/http notices that
//     a client has gone only once the body has been read, so a request that has
//     to wait has a body of up to 64 KiB read first, if its length is declared;
//     the handler gets it whole.
//  4. handler: its context ends when the lease is lost, interrupted or held
//     longer than [WithMaxHold], and with it whatever was called with that
//     context. [lock.From] finds the lease, and so the fence, in it.
//  5. release: always, also when the handler panics, hijacks the connection or
//     its client has gone. A panic goes on to the caller unchanged.
//
// Requests that are turned away, and those whose handler was cut off before
// it wrote anything, get a [Denial]: by default as application/problem+json
// (RFC 9457). A handler that was cut off with its response half written has
// its connection broken off, so that no client takes the half for the whole.
// Only a response that has sent all of its declared Content-Length, one that
// has no body by its status or method, and a hijacked connection are left as
// they are.
//
// # Where to put it
//
//   - It MUST wrap the matched handler, not the router, where the key comes
//     from the route (keyfuncs.PathValue), and so that health checks and 404s
//     need no lock.
//   - It MUST come after authentication where the key names the user.
//   - Recovery, logging, tracing, CORS and a limit on the size of bodies
//     SHOULD come before it: they then see denials like any other response. A
//     broken-off response panics with [http.ErrAbortHandler], which a recovery
//     of your own should let pass; one that swallows it, as gin's does, cannot
//     make the response look whole.
//   - Compression may come before or after it. In gin, one that holds back the
//     first bytes of a response MUST come after it: gin's writer, which the
//     guard asks, does not know of them.
//   - [WithMaxHold] is preferable to a timeout middleware: it ends the work,
//     not only the response. One that comes before the guard also cuts the
//     wait short; the client then gets what [Busy] says.
//   - Two guards around one handler MUST use different keys, and every route
//     must take them in the same order: a lock is not re-entrant. For the same
//     reason a handler MUST NOT call its own service under the key it holds.
//
// # Two bounds
//
// The TTL bounds recovery from a crash: how long a key stays held after the
// process holding it has died. It is renewed for as long as the handler runs,
// so it says nothing about the work. MaxHold bounds the work.
//
// # Limits
//
// A handler is asked to stop through its context, it cannot be made to: one
// that ignores the context keeps its key until it returns. A lease can be lost
// while the handler runs, see package lock; what must never happen twice needs
// the fence as well. A response without a Content-Length that is broken off
// over HTTP/1.0 ends like a whole one, since that protocol has no other end.
package middleware
