// Package redistest runs real redis-servers for tests and benchmarks.
//
// [Start] starts one on a free port of the loopback interface, with its files
// in the test's temporary directory, and stops it when the test ends:
//
//	func TestSomething(t *testing.T) {
//		srv := redistest.Start(t, "maxmemory 5mb")
//		rdb := redis.NewClient(&redis.Options{Addr: srv.Addr()}) // under test
//		defer rdb.Close()
//		…
//		require.Empty(t, srv.Keys("*"))
//	}
//
// The server can be paused, killed and restarted. [Server.Monitor] records the
// commands that reach it, those inside scripts told apart; [Server.Commands]
// counts them cheaply. A [Proxy] between client and server delays, swallows,
// refuses and cuts.
//
// [StartSentinel], [StartCluster] and [StartMasters] start what people run in
// production: replicas and who promotes them, shards, independent masters. The
// servers are of the same kind, so a test kills a master and awaits the next.
//
// Without a redis-server on the PATH the test fails: nothing is skipped. The
// package needs a Unix.
package redistest
