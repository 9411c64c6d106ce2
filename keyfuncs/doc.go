// Package keyfuncs derives from a request the key that its lock is taken on.
//
// A key is what a [Func] returns. Requests with equal keys run one after the
// other, requests with different keys run side by side:
//
//	// one message at a time in each of a user's sessions
//	key := keyfuncs.Join(keyfuncs.Header("X-User-ID"), keyfuncs.PathValue("session"))
//
// # Choosing a key
//
// Name what must not be worked on twice at the same time, and nothing more:
//
//   - The user plus the resource: user and session, user and cart, the order's
//     id, the account's id. [Join] puts several parts into one key.
//   - Take the user from your authentication: a header that your gateway sets
//     and strips from what clients send, the value that an earlier handler has
//     put into the context, or [Bearer]. The client does not choose it.
//   - What the client may choose freely (a query parameter, a field of the
//     body) is one more part beside the user, where a wrong value harms nobody
//     but the client itself. Alone it lets a client escape the lock, by a new
//     value for each request, or block somebody else's.
//   - Never a global key ([Const] alone, the [Host] or the [Pattern] alone): all users
//     would wait for each other.
//   - Never an IP address for users: see [RemoteIP].
//   - Read a part from where the handler reads it. A lock on the query's
//     "session" guards nothing where the handler takes the one in the body.
//   - Two guards that use one Locker share its keys: "u1" on one route is "u1"
//     on the other. Where that is not wanted, start with a [Const] that names
//     the kind: Join(Const("cart"), Header("X-User-ID")).
//
// # Writing a Func
//
// Any function with the signature is a Func. It should be cheap, since it runs
// before any lock limits how many run at once, and deterministic: the same
// user and resource give the same key, in every process. It is run once per
// request, on the goroutine of that request, and so concurrently with itself.
// Keys are compared byte by byte; what counts as equal (case, Unicode normal
// form, surrounding spaces) is for the Func to make equal.
//
// A Func says that its value is not there with an error that matches
// [ErrMissing], and that it cannot be trusted with one that matches
// [ErrMalformed]; [Error] is made for both. The text of these two kinds is
// shown to clients, so it must hold no secret; that of other errors is not.
// An empty value without an error is as good as missing: there is no default
// key, since everybody without a value would share it.
//
// # Ambiguous requests
//
// The Funcs of this package refuse with ErrMalformed what two readers may
// understand differently, since a client could otherwise lock one thing and
// work on another: header lines, cookies, query or form parameters of one name
// with different values, JSON keys found twice, broken encodings.
//
// # Bodies
//
// [JSON] and [FormValue] read at most [MaxBody] bytes and leave the body whole
// for the handler: in the request that they are given they replace r.Body by
// one that starts at the first byte again. They wait for the client to send the
// body, so the server should have a ReadTimeout.
//
// Whoever runs such a Func by hand must give it a shallow copy of the server's
// request, as r.WithContext makes one, and pass that copy on. net/http tells by
// the type of the Body in its own request whether a body that was closed early
// has left bytes on the connection; it does not know ours, and would take the
// rest of a body that is too large for the next request. (So it is with
// whatever replaces r.Body. middleware.Guard sees to it for its requests.)
//
// A key function must run before anything else has read the body.
package keyfuncs
