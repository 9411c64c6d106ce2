// Bench runs redislock beside redsync, bsm/redislock and rueidislock, on one
// redis-server, and prints one table for each scenario:
//
//	cd internal/peers && go run ./bench
//
//	a  distinct keys: acquire and release, 1, 8, 64, 256 goroutines
//	b  3 processes × 16 goroutines, one key, held for 1 ms
//	c  3 processes × 16 goroutines, 8 keys, held for 5 ms
//	d  4 processes, one key: from one's release to the next one's start
//	e  one process holds 10,000 keys for a minute
//	f  5,000 callers of one process want one key at once, pool of 10 connections
//	g  one process waits for a key that another one holds
//
// Each figure is the median of the runs, in which the peers take turns, so that
// a noisy machine is noisy for all of them; max, lost, late and unlock are the worst
// of all runs. "× best" is the ratio to the best of the peers, ours not counted. The
// limit in b and c is a sync.Mutex, with as many goroutines in a single process.
//
// Whoever locks runs in processes of its own, which are this program again. They
// report when they began to hold a key and when they began to give it back, by
// the machine's clock. Two that held it at once are an ERROR below the table, and
// the exit code is 1.
//
// Who waits when the time of b and c is over is waited for; who is not served
// even then counts with the time that it has waited, and as a failed call.
//
// In d a process asks again only when another one has started. So three are
// waiting at every release, and none passes the key to itself.
//
// In e only those peers have a row that renew a lock by themselves: others would
// lose it after its TTL. A lock is "lost" if its context has ended before it was
// given back. The share of a core is that of the process which holds the keys.
//
// In f the pool is that of go-redis. redislock opens half as many connections for
// those who ask, as many for those who release, and up to eight more; rueidislock
// sends all on one.
// Everybody asks once and waits for ten seconds at most: who is not served by then
// is no failed call. "late" is how long after that the last of them was told,
// "unlock" the slowest one, "last answer" when Lock had returned to everybody.
//
// Commands are counted in two ways: "sent" is what clients sent, counted on
// their connections, "all" is what Redis carried out, so what scripts call is in
// it as well, from INFO commandstats. Neither has what opens a connection in it,
// nor PING, which is sent per connection and not per lock.
package main
