// Package join has equal requests that are in flight at the same time share one response:
//
//	guard := httplock.New(locks, key, middleware.WithJoin(join.New(nil)))
//
// The first of them, the leader, takes the key and runs its handler. Those that come
// while it waits or runs follow it: they ask Redis nothing, run no handler, and are sent
// the same response, from its first byte and then live, as the handler writes and flushes
// it. A stream of tokens reaches all of them token by token.
//
// # What is equal
//
// Requests with the same key, method, Origin and fingerprint: [middleware.Fingerprint] has
// what that is by default. Only who may see the same response may be equal: what tells
// users apart MUST be in the key, in a header, in the client's certificate, or in a
// fingerprint of your own ([middleware.WithFingerprint]), such as a user that was put into
// the context. The address of a client tells nobody apart.
//
// # What is shared
//
// Status, body, trailers, and what the handler has made of the header that it found. What
// handlers further out have set, such as CORS headers, a request's id or an encoding,
// stays each response's own. Informational responses (1xx) are for the leader only.
//
// Not shared are responses whose handler sets a cookie, that vary by User-Agent or by
// everything (Vary: *) or say Cache-Control: private or no-store, whoever has made them say
// so (see [WithPrivate]), and connections that are hijacked or upgraded. That is known when the header is complete:
// those that wait for it then run for themselves, one at a time, and wait for the key as
// anybody does.
//
// # Who waits for whom
//
// The handler is stopped by its context when the last client has left, not when the
// leader's has. What else ends the context of the leader's request, a deadline of a
// middleware or a server that stops, ends the handler's, with the same cause (its Err is
// context.Canceled, and it has no Deadline). What the handler still writes is for the
// leader; others, who could not tell it from the whole, are broken off, or run for
// themselves where nothing was written. Nobody joins a handler that was asked to stop. A
// context that a middleware cancels without a cause is taken for a client that has left.
//
// This is for answers and streams of tokens rather than for large downloads. The handler is
// up to 64 KiB ahead of the fastest client. A client that is more than [WithKept] behind the
// handler holds the others up, for a second at most for each so many bytes, and is then
// broken off, so that it does not take the part for the whole; clients that read in bursts
// can be. Once the beginning of a long response is not kept any more, an equal request
// waits for the key.
//
// The leader's client is served by a goroutine of its own; a response of up to 2 KiB that
// is not flushed is sent when the handler has returned. The handler runs on the goroutine
// of the leader's request, which ends with the run.
//
// A request waits for the key as long as it would alone (middleware.WithWait): if its
// leader is turned away earlier, another of those that wait leads. For a handler that runs
// it waits as long as that takes. A full queue turns all of them away.
//
// When a handler is stopped by the lock before it has written anything, all get the same
// denial. When it panics before that, followers get 500, and the leader what a recovery
// makes of it. After that, all responses are broken off.
//
// # Where to put it
//
// Compression and logging may come before or after the guard. Handlers see a
// ResponseWriter with the optional interfaces that the server's has, but for the deprecated
// http.CloseNotifier. What a handler adds to the response with a goroutine that goes on
// after it has returned is lost, as without the guard.
//
// A write deadline that a handler sets is for the leader's connection only. Where each
// client is to have one, as under an http.Server with a WriteTimeout, a middleware before
// the guard sets it, on what it hands on: examples/chatserver does.
package join
