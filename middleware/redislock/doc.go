// Package redislock holds leases in Redis, so that one holder of a key excludes
// those in every other process that shares the server.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	locks, err := redislock.New(rdb)
//	if err != nil {
//		return err
//	}
//	defer locks.Close()
//
// # How to deploy it
//
//   - One Locker for each process. It opens connections of its own when they are
//     needed: half as many as PoolSize of the given client to acquire, as many to
//     release, and eight more: four to renew, one each to clean up, to interrupt, to
//     look for restarts and to hear of grants. Where more callers come at a time,
//     they share round trips, up to 128 each. One scheduler renews all leases.
//   - A single Redis server, version 6.2 or later. Its user must be allowed to
//     run EVAL, EVALSHA and the plain commands in the scripts, should be allowed
//     to SUBSCRIBE and PUBLISH on channels that begin with the prefix, and to ask
//     for INFO: see below.
//   - One TTL for a key in all processes: what waits after a restart of the
//     server goes by the longest TTL that its own process has used.
//   - The server MUST NOT evict keys under a TTL: maxmemory-policy noeviction,
//     or a server of its own. An evicted lock is a lost lease.
//   - Close the Locker after the HTTP server has been shut down.
//
// # What it does
//
// redsync is the mutex: it judges each reply. The scripts are ours, and so is the
// trip: an acquire can be repeated when its reply was lost, and brings a fence. A lease
// is renewed at a third of its TTL. When it can't be renewed its context ends
// with [lock.ErrLost], before Redis gives the key away, by the monotonic clock
// and with a hundredth of the TTL for the drift between two clocks.
//
// Inside a process a lease is passed on from one caller to the next, without
// Redis: to up to 16 callers ([WithHandoff]), for 25 ms, as long as they want the
// same TTL and a third of it is left. Each has a fence of its own. Then the lock
// goes to whoever has waited longest: in order of arrival across processes, to
// within the time that a question takes to Redis. Inside a process callers queue, and only the
// first of them waits in Redis. Who releases gives the lock to whoever has
// waited longest in any process, and enters the next caller of its own, all in
// the script that frees it; the new holder is told in a message on the one
// channel to which its process is subscribed, and sends nothing before its work
// starts. Nobody waiting, nothing is published, and nobody is subscribed before
// somebody has to wait.
//
// A waiter asks again after a third of its TTL, when the holder's lease runs out,
// when the subscription had to be renewed, and when nothing was heard of Redis
// for 2¼ s. So a message that is lost costs a third of the TTL, a process that
// dies its TTL, and a waiter whose connection is seen to close nothing. Where
// nobody may subscribe waiters ask every 5 to 500 ms instead, and keep their
// places.
//
// The rules that this follows are in internal/handoffmodel/RULES.md. The model
// there tries all orders in which things can happen, with all of the rules and
// without each of them.
//
// After a restart of the server, which may have forgotten holders, no free key is
// given out for one TTL: by then its holder has noticed. Who does not wait as
// long is told [lock.ErrUnavailable], or that the key is busy where it did not
// wait at all.
//
// A question to Redis that has no answer is given up after half a second, or
// after 0.8 s where its connection had to be opened first, whatever the TTL and
// the options of the given client; one that failed within a quarter of a second
// is asked again. Where as many trips are under way as may be, an acquire waits
// for one as long as it is willing to wait at all, but at least 0.8 s,
// and a release up to two seconds; where nothing has a reply, 0.8 s with the trip
// itself. What then has no answer is cleaned up in the background, until Redis
// acknowledges.
//
// # What to allow
//
// A user of its own needs these rights, with SELECT for another database than 0
// and CLIENT SETNAME for a ClientName, and WithPrefix instead of "reqlock:":
//
//	ACL SETUSER reqlock on >secret ~reqlock:* &reqlock:inbox:*
//	  +ping +eval +evalsha +time +exists +get +set +del +pexpire +pttl
//	  +hget +hset +hdel +zadd +zcard +zrank +zrem +zscore +zpopmin +zremrangebyscore
//	  +subscribe +publish +pubsub|numsub +info
//
// The last line can be done without, also where it is a proxy that refuses: an
// operator reads once ([lock.Degraded]) what is refused and what that costs. Without
// SUBSCRIBE, or PUBLISH in scripts, waiters ask every 5 to 500 ms instead of being
// told. Without PUBSUB NUMSUB a lock can be given to a process that died while it
// waited, which costs its TTL. Without INFO a restart of the server that loses the
// locks goes unnoticed: the key of a holder that was forgotten is free at once. What
// is refused is tried again every 30 s, so rights that are given later are used.
//
// Without one of the others the request that needs it gets [lock.ErrUnavailable],
// and the one line of the outage says why. Some are needed first when two processes
// want the same key.
//
// # Keys
//
// All names begin with the prefix, "reqlock:" unless [WithPrefix] says
// otherwise, and carry the user's key as their hash tag, its braces escaped and
// hashed beyond 128 bytes: reqlock:{u1:s1}:lock. Every key expires: the lock
// with its TTL; the fence, which is kept so that a server clock set back does
// no harm, a minute and one TTL after the last lease; the queue and its entries,
// which last as long; others within 10 s or the TTL, whichever is longer. The
// channel of a process is reqlock:inbox: and a random text.
//
// # What it cannot do
//
// A replica that is promoted without having seen an acknowledged write, a
// server clock that jumps ahead, a server that restarts without its data as seen
// by a process that has started since, or a holder whose monotonic clock stands
// still while its machine is suspended, can each let two holders overlap. The
// fence of the newer one is greater, so a resource that compares fences can
// refuse the older; not so where a server clock was set back by more than the
// minute a fence is kept, or without its data by anything. Where that is not
// possible and not acceptable, use a consensus store.
package redislock
