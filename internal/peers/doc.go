// Package peers runs redislock beside the locks on Redis that are used most. It
// is a module of its own, so that they are no dependencies of ours.
//
// Program bench measures them side by side, on one redis-server, and prints what
// our README says of them. Run it from here, on a machine that does nothing else;
// it takes a quarter of an hour:
//
//	go run ./bench            # -h for part of it, -markdown for the README
//
// The tests show the hazards of a plain redsync mutex, set up as its users do
// with go-redis, and that redislock, which has that mutex inside, is free of
// them: two halves of one test, in the same trouble. A half that fails with a
// new version of redsync or go-redis says that the comparison in our README is
// out of date.
//
//	hazard of redsync v4.18 on go-redis v9.23       test, TestHazard…
//	------------------------------------------      -------------------------
//	an acquire that was given up leaves its key     AcquireLeavesKey
//	"taken", though only by the caller itself       FalseTaken
//	a context does not bound what Redis is asked    ContextDoesNotBound
//	ten seconds for an answer from a black hole     LongAnswers
//	an outage and a held key are the same error     OutageLooksHeld
//	an extension outlasts the lease, nobody told    ExtensionOutlastsLease
//	a lost lock is silently taken again (1)         SilentReacquisition
//	validity is judged before the answer comes (2)  ValidTooLate
//	a crowd that waits starves a release            CrowdStarvesRelease
//	Until and Extend are a data race                UntilIsARace
//
// (1) with WithSetNXOnExtend only. (2) by Valid, which is deprecated; Until is
// right.
package peers
