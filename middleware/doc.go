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
//  3. join, with [WithJoin]: a request that is equal to one in flight gets the
//     same response, live, and none of what follows happens for it.
//  4. lock: waits its turn, at most [WithWait]. On HTTP/1 net/http notices that
//     a client has gone only once the body has been read, so a request that has
//     to wait has a body of up to 64 KiB read first, if its length is declared;
//     the handler gets it whole.
//  5. handler: its context ends when the lease is lost, interrupted or held
//     longer than [WithMaxHold], and with it whatever was called with that
//     context. [lock.From] finds the lease, and so the fence, in it.
//  6. release: always, also when the handler panics, hijacks the connection or
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
//   - Two guards around one handler that use different keys MUST be in the same
//     order on every route; see below for those with the same key.
//
// # The same key twice
//
// A guard inside a guard on the same request, with the same Locker and the same key,
// runs its handler under the lease that the outer one holds: it acquires nothing, so its
// options for that do nothing, and the others go on working. So it does with
// others between them, as long as the request's context is passed on.
//
// Nor does it share its response: where [WithJoin] says so the outer one does, and the
// inner one, whatever its key, writes a part of that.
//
// A handler that calls its own service over HTTP with the key it holds waits for
// itself: that is another request, which gets 429 once [WithWait] is over. Ways out:
//
//   - Call the function, not the service.
//   - Use another key for the inner call.
//   - [WithSkip] for requests that carry a secret of the service, compared in
//     constant time: who knows it passes without a lock.
//
// # Which timeouts
//
// Longest work < MaxHold. The TTL only bounds recovery from a crash: how long a key
// stays held after the process holding it has died. It is renewed for as long as
// the handler runs, so it says nothing about the work, and need not be longer than
// that.
//
// Wait < the timeouts of clients and proxies, less the work: a request that waits
// for longer than its client does is served for nobody.
//
// # When the Locker is unavailable
//
// A request that cannot be told whether its key is free is turned away with 503, in
// redislock's case within a second and then at once. [WithFallback] sets what is
// asked instead: memlock.New() still keeps one process from running two handlers of
// a key, [lock.Open] lets all of them run. A 429 is never an outage: there is
// somebody who has the key, be it in the fallback.
//
// Processes notice an outage, and its end, one after the other. So for as long as
// it lasts, and at both ends, handlers of different processes can overlap, unless
// the fallback is one that they share.
//
// # Limits
//
// A handler is asked to stop through its context, it cannot be made to: one
// that ignores the context keeps its key until it returns. A lease can be lost
// while the handler runs, see package lock; what must never happen twice needs
// the fence as well. A response without a Content-Length that is broken off
// over HTTP/1.0 ends like a whole one, since that protocol has no other end.
package middleware
