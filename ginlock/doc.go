// Package ginlock is the gin middleware: requests with equal keys reach the
// handlers after it one at a time, across every process that shares the
// [lock.Locker].
//
//	key := keyfuncs.Join(ginlock.Value("user"), keyfuncs.PathValue("session"))
//	chats := router.Group("/sessions/:session", auth)
//	chats.Use(ginlock.New(locks, key, middleware.WithWait(3*time.Second)))
//	chats.POST("/messages", chat)
//
// Key functions see what gin knows of a request: c.Param("session") answers
// [keyfuncs.PathValue]("session"), and [Value]("user") returns what an earlier
// handler stored with c.Set. They do not see the [gin.Context] itself, which
// gin uses again for the next request.
//
// While the guarded handlers run, c.Request carries the context of the lease.
// So pass c.Request.Context() to whatever should stop when the lease is lost,
// and ask that for the lease:
//
//	lease, ok := lock.From(c.Request.Context())
//
// lock.From(c), and c as a context, only see it where the engine's
// ContextWithFallback is set.
//
// Where no route has matched (c.FullPath() is ""), a request goes straight
// through, so router.Use(ginlock.New(…)) does not answer a 404 with a 400. It
// does guard every route, health checks among them: a group is better.
//
// # Joining
//
// With [middleware.WithJoin] equal requests share one response. Of one that joins no
// handler after the guard runs: it is aborted, its c.Errors are empty, and what the
// handlers have put into the context with c.Set is not in its own. Handlers before the
// guard run for each request, after c.Next() as well, and find the status and the size
// of its response in c.Writer.
//
// Handlers that leave it to one further out to answer share nothing: those that end with
// an error and no body (c.Error, c.AbortWithError, c.Bind), or with neither a status nor a
// body. Each request then runs for itself, one at a time. What is added to a response whose body
// has begun goes to the first client only. A status alone (c.Status) is a response.
//
// A user that an earlier handler has put into the context is no part of what makes
// requests equal: it is to be in the key, or in a fingerprint of your own, as in
// ExampleNew_join.
//
// While handlers write, another goroutine passes on what they have written, through gin's
// own writer. They MUST use c.Writer as they find it, not one that was kept from further
// out, and call c.Copy before they write.
//
// Package middleware says what happens to a request, what the options do, and
// where the middleware belongs among others.
package ginlock
