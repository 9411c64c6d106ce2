// Package redislock holds leases in Redis, so that one holder of a key excludes
// those in every other process that shares it: a single server, one with replicas
// and Sentinel, a Cluster, or a quorum of masters.
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
//     release, and nine more: four to renew, one each to clean up, to interrupt, to
//     look for restarts, to probe and to hear of grants; in a Cluster and with a
//     quorum as many to each master that is used. Where more callers come at a time,
//     they share round trips, up to 128 each. One scheduler renews all leases.
//   - Redis 6.2 or later, in whatever shape there is: see below. Its user must be
//     allowed what is listed there.
//   - One TTL for a key in all processes: what waits after a restart of a
//     server goes by the longest TTL that its own process has used.
//   - The server MUST NOT evict keys under a TTL: maxmemory-policy noeviction,
//     or a server of its own. An evicted lock is a lost lease.
//   - Close the Locker after the HTTP server has been shut down.
//
// # Which Redis
//
// A single server: [New] with redis.NewClient.
//
// Sentinel: [New] with redis.NewFailoverClient, which writes what it finds out about
// sentinels to go-redis' own log. Every two seconds the Locker opens a
// connection by way of the sentinels; once that leads to another master it cuts those
// to the old one. While no sentinel answers it goes on with the connections that it
// has. The sentinels are asked within the timeouts of the FailoverOptions: with
// go-redis' defaults one that swallows what it is asked keeps a process that has just
// started waiting for some five seconds, so set DialTimeout and ReadTimeout to
// one second or less.
//
// A Cluster: [New] with redis.NewClusterClient. All that there is of a key is in one
// slot, and its master is asked as a single server is: as many commands, and whoever
// asks a master that does not answer holds up nobody who asks another. A Cluster itself
// answers nobody while one of its slots has no master, unless it has
// cluster-require-full-coverage no. While a slot is
// being migrated its keys can be had on neither side, since the scripts use several
// keys: who asks is answered within 0.8 s, with [lock.ErrUnavailable] if it takes
// longer, and who holds keeps the lease if it does not take as long as that lasts. A
// process whose wait is over because it has died is not noticed before its place
// lapses, after its TTL or two seconds, whichever is longer.
//
// Several independent masters: [NewQuorum]. The lock is held on most of them, as in the
// Redlock algorithm, so the service goes on while fewer than half are away, without
// replicas and failovers. One that restarts without its data gives nothing to anybody
// for one TTL and is reminded of the leases that others have of it. To acquire are two
// commands to each master, in two round trips, to release one: fifteen with five
// masters, where a single one takes two. Nobody is granted a lock unasked: the process
// that has waited longest is told that the lock is free, and tries; so does whoever comes
// at that moment. The order of arrival is kept inside a process and is likely between
// them.
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
// channel to which its process is subscribed at that server, and sends nothing before its
// work starts. Nobody waiting, nothing is published, and nobody is subscribed before
// somebody has to wait.
//
// A waiter asks again after a third of its TTL, when the holder's lease runs out,
// when the subscription had to be renewed, and when nothing was heard of Redis
// for 2¼ s. So a message that is lost costs a third of the TTL, a process that
// dies its TTL, and a waiter whose connection is seen to close nothing, but in a
// Cluster. Where nobody may subscribe waiters ask every 5 to 500 ms instead, and keep their
// places.
//
// The rules that this follows are in internal/handoffmodel/RULES.md. The model
// there tries all orders in which things can happen, with all of the rules and
// without each of them.
//
// After a restart of the server, which may have forgotten holders, no free key is
// given out for one TTL: by then its holder has noticed. The operator is told
// ([lock.KeptBack]); who is not willing to wait as long is told at once, with a
// [lock.UnavailableError] that says how long it will be.
//
// A question to Redis that has no answer is given up after half a second, or
// after 0.8 s where its connection had to be opened first, whatever the TTL and
// the options of the given client; one that failed within a quarter of a second
// is asked again. Where as many trips are under way as may be, an acquire waits
// for one as long as it is willing to wait at all, but at least 0.8 s,
// and a release up to two seconds. What then has no answer is cleaned up in the
// background, until Redis acknowledges.
//
// # When Redis is away
//
// A single trip that had no reply, while no other had one either, opens the circuit
// breaker of its server. Who comes is then told [lock.ErrUnavailable] at once; a lock that
// is released is freed in the background; and a probe is sent, on a new connection, at once
// and then every 0.1 to 0.2 s. If the first has no reply, who waits is told as well, also
// behind a holder of the same process. The first that has one closes the breaker: an
// outage costs the callers that meet it a second at most, those after them nothing, and it
// is over without any of them. Renewals go on throughout, so a lease is lost when an outage has
// lasted for its TTL. A server that replies, and be it that it refuses what it is asked,
// is asked. In a quorum a member that is away is left out, and it is an outage when
// a majority is.
//
// The operator reads of an outage twice, with the reason when it begins
// ([lock.BackendFailed]) and when there has been none for a second
// ([lock.BackendRecovered]), also where nobody asks; but a refusal has to end with an
// acquire that is not refused. A process in which nobody asks, and some wait for other
// processes, tells those within four seconds.
//
// # What to allow
//
// A user of its own needs these rights, with SELECT for another database than 0
// and CLIENT SETNAME for a ClientName, and WithPrefix instead of "reqlock:":
//
//	redis-cli ACL SETUSER reqlock on '>secret' '~reqlock:*' '&reqlock:inbox:*' \
//	  +ping +eval +evalsha +time +exists +get +set +del +pexpire +pttl \
//	  +hget +hset +hdel +zadd +zcard +zrank +zrem +zscore +zpopmin +zremrangebyscore \
//	  +subscribe +publish '+pubsub|numsub' +info
//
// and in a Cluster '+cluster|slots'.
//
// The last line of the list can be done without, also where it is a proxy that refuses: an
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
// channel of a process, one for each server, is reqlock:inbox: and a random text.
//
// # What it cannot do
//
// Two holders of a key can overlap
//
//   - where a server clock jumps ahead, or a machine is suspended together with its
//     monotonic clock, by as long as that;
//   - where a server restarts without its data, as seen by a process that has started
//     since or has not used that server before; in a Cluster also where the slot has
//     moved to another master since without the process asking the old one;
//   - with Sentinel and in a Cluster, where a master is replaced that had not told its
//     replicas of a lock yet, as replication is asynchronous: what was granted in the
//     last moments before it died. Holders learn of it when they next renew, a third of
//     the TTL later at most;
//   - with Sentinel also for as long as the old master still takes writes: some
//     seconds in a planned failover, and longer where it is cut off from the others
//     together with the processes that use it. min-replicas-to-write 1 and
//     min-replicas-max-lag bound that;
//   - with a quorum, where most of the masters have lost their data, or as in the first
//     of these cases: a lease lasts as long as the clocks of the masters run
//     no faster than by a hundredth, and a holder that is suspended while it works does
//     not know how late it is.
//
// The fence of whoever got the key later is greater, so a resource that compares fences
// refuses the other; where an old master gave it away after the new one had, that is the
// one of the new master. It is not so where a server clock was set back by more than the
// minute a fence is kept, or without its data by anything, or lags behind another's by
// more than a failover takes. Where an overlap is not possible and not acceptable, use a
// consensus store.
package redislock
