// Package locktest checks that a [lock.Locker] keeps what the contract
// promises: it is to package lock what testing/slogtest is to log/slog.
//
// An implementation runs the suite in one of its own tests:
//
//	func TestConformance(t *testing.T) {
//		locktest.Run(t, func(t *testing.T) locktest.Fixture {
//			return locktest.Fixture{Locker: memlock.New()}
//		})
//	}
//
// Every case is a subtest named after the obligation that it checks, so that a
// failure reads as the promise that was broken. What a Locker has no notion of
// (other processes, loss, a backend that can be away) it leaves out of its
// [Fixture], and the cases about it do not exist for it.
//
// Run with -race: some cases share plain variables between the holders of a
// key on purpose. A Locker must order memory as a mutex does, that is, what a
// holder did before Release happens before the next Acquire of the key returns.
//
// # How it waits
//
// Nothing here relies on a sleep to make something happen. That a caller waits
// in the queue is known from MaxQueue: an Acquire with MaxQueue n is answered
// ErrQueueFull exactly while n callers wait, so asking until that answer comes
// tells that the n-th has arrived. (While fewer wait, the question takes a place
// itself for a moment, so the waiters proper come with room to spare.) Where a
// promise is an upper bound, the test
// leaves a margin for a busy machine; where it is that something does not
// happen, it looks for a few TTLs.
package locktest
