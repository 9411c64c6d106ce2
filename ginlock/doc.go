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
// Package middleware says what happens to a request, what the options do, and
// where the middleware belongs among others.
package ginlock
