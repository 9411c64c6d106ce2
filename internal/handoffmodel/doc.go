// Package handoffmodel is a model of how a lock is handed from one process to
// the next, small enough to be explored exhaustively. Its tests visit every
// state that two or three pods, one Redis and what is under way between them can
// get into, and check that the protocol holds there. Then they take its rules
// away, one at a time, and check that each is missed.
//
// The rules are in RULES.md, with numbers that the comments use here and in the
// scripts of middleware/redislock. Who changes a script changes this first:
//
//	go test -v ./internal/handoffmodel
//
// A property that does not hold is shown as one of the shortest ways to break
// it, step by step:
//
//  1. A1 begins to wait and asks
//  2. A1 gives up waiting
//  3. Redis runs the leave of A1
//  4. Redis runs a command of A1: it is the owner
//
// state.go says what there is, redis.go what the scripts do, pod.go what a
// process does, line.go how it passes the lock on to its own callers, steps.go
// what can happen when, properties.go what must hold, and rules.go what can be
// taken away.
//
// # What must hold
//
//   - No two leases are valid at once.
//   - The fence rises with every lease that somebody starts with.
//   - Redis keeps no token whose pod is done with it, unless its leave is still
//     to come or the pod has died. A token named in a leave is not held again.
//   - Nobody is passed over who has waited for longer, was told that he is
//     queued, asks again in time, and listens or is not subscribed yet, except
//     by callers of the holder's process to whom its lease is passed on.
//   - Whatever has happened: once nothing fails any more, every waiter is served.
//     Config.Still has that without the help of time, which is the hand-off
//     proper.
//
// # How it abstracts
//
//   - There is one key. A pod has one contender at a time, up to two callers in
//     line behind it, and up to three turns.
//   - Time comes in ticks, a TTL has two or three. A lock expires at any moment
//     from its TTL to Config.Drift later, by the clocks of the pods, which run
//     alike. A holder counts on its TTL; it acts on a lease while anything is
//     left of it, where the client wants a third.
//   - Commands execute and grants arrive in any order and however late, in
//     particular after their sender has given up or died. A command that never
//     executes is one that is later than anything else. Leaves that name nobody
//     are acknowledged as they execute, and unless Config.Slow extends are one
//     step, and answers arrive as the command executes.
//   - A holder with somebody in line sends a leave that names him, again if that
//     has no answer, and then one that names nobody. A holder with nobody in line
//     is done once its leave is sent; the client waits for the answer.
//   - Waiters ask again at any time, not when it is due.
//   - Tombstones last: no command executes later than its token's would.
//   - Tickets are exact. In fact they are out by the time a command took.
//   - What fails beyond that is counted in Faults: each exploration allows for a
//     few crashes, lost answers, lost grants, cut inboxes (some still count as
//     subscribed) and restarts without data. Restarts break all connections, and
//     every pod knows of them.
//
// # What is not in it
//
// Failover and quorums, join, queue limits, yes/no tries, a snapshot of old data at a restart, commands that
// were written before a restart and are sent after it, and the rules that are
// about redsync, go-redis and the order inside a script (5, 7, 16 to 20). Waiters
// that poll are in it as those without an inbox.
package handoffmodel
