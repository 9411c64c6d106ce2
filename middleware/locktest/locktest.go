package locktest

import (
	"testing"

	"github.com/reqlock/reqlock/middleware/lock"
)

// A Fixture is what the suite needs of one implementation.
type Fixture struct {
	// Locker is what is tested.
	Locker lock.Locker

	// Peer holds the same keys as another process does: a second Locker on the
	// same backend. nil: leases are not shared between processes.
	Peer lock.Locker

	// Lose makes the backend forget who holds the key, behind the holder's
	// back, as a failover or an expiry does. It must not take back fences that
	// were given out. nil: leases cannot be lost.
	Lose func(key string)

	// Break makes the backend unreachable for Locker, and for Peer or not,
	// until Heal is called; a backend that swallows what it is sent finds more
	// than one that refuses connections. Heal may be called more than once.
	// Both nil: there is no backend.
	Break, Heal func()
}

// Run checks every obligation that applies, each in a subtest with a Fixture
// of its own. open is called once more for t itself, to see what applies. What
// it opens is to be closed by t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	has := open(t)
	switch {
	case has.Locker == nil:
		t.Fatal("locktest: the Fixture has no Locker")
	case (has.Break == nil) != (has.Heal == nil):
		t.Fatal("locktest: Break and Heal of a Fixture belong together")
	}
	for _, c := range cases {
		if c.applies == nil || c.applies(has) {
			t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
		}
	}
}

// lockers returns the one or two that see the same keys.
func (f Fixture) lockers() []lock.Locker {
	if f.Peer == nil {
		return []lock.Locker{f.Locker}
	}
	return []lock.Locker{f.Locker, f.Peer}
}

type obligation struct {
	name    string
	applies func(Fixture) bool // nil: to every Locker
	run     func(*testing.T, Fixture)
}

func hasPeer(f Fixture) bool      { return f.Peer != nil }
func canLose(f Fixture) bool      { return f.Lose != nil }
func canBeStolen(f Fixture) bool  { return f.Lose != nil && f.Peer != nil }
func canBreak(f Fixture) bool     { return f.Break != nil }
func canBreakPeer(f Fixture) bool { return canBreak(f) && hasPeer(f) }

var cases = []obligation{
	{"holders of a key never overlap", nil, neverOverlap},
	{"holders in two processes never overlap", hasPeer, neverOverlapPeer},
	{"different keys do not wait for each other", nil, keysAreIndependent},
	{"a lease outlives its TTL", nil, outlivesTTL},
	{"a lease outlives its TTL for another process", hasPeer, outlivesTTLPeer},
	{"thousands of keys", nil, thousandsOfKeys},
	{"any bytes are a key of their own", nil, anyBytes},
	{"an empty key is refused", nil, emptyKey},
	{"bad options are refused", nil, badOptions},

	{"a try is answered at once", nil, tryIsAnswered},
	{"a try is answered at once by another process", hasPeer, tryIsAnsweredPeer},
	{"of many tries at once one wins", nil, oneTryWins},
	{"of many tries in two processes at once one wins", hasPeer, oneTryWinsPeer},
	{"a try neither queues nor overtakes", nil, tryNeitherQueuesNorOvertakes},
	{"a wait ends in time", nil, waitEnds},
	{"a wait for another process ends in time", hasPeer, waitEndsPeer},
	{"L24: a wait may be longer than the TTL", nil, waitOutlastsTTL},
	{"a wait for another process may be longer than the TTL", hasPeer, waitOutlastsTTLPeer},
	{"waiters are served in order of arrival", nil, orderOfArrival},
	{"a full queue is told at once", nil, queueFull},

	{"a done context is not busy", nil, doneContext},
	{"a waiter that is cancelled leaves at once", nil, cancelWaiting},
	{"a waiter for another process that is cancelled leaves at once", hasPeer, cancelWaitingPeer},
	{"a deadline ends the wait", nil, deadlineWaiting},
	{"a cancel at any moment leaves nothing held", nil, cancelAnyMoment},
	{"a cancel as the turn comes loses no turn", nil, cancelWhenGranted},
	{"a cancel as another process releases loses no turn", hasPeer, cancelWhenReleasedPeer},
	{"a try that is cancelled harms no other", nil, cancelledTryHarmsNone},

	{"the lease is found in its context", nil, leaseInContext},
	{"the context is a child", nil, contextIsChild},
	{"the end of the parent passes through", nil, parentEnds},
	{"release ends the context and frees the key", nil, releaseFrees},
	{"release twice is release once", nil, releaseTwice},
	{"release by many is release once", nil, releaseConcurrently},
	{"release with a done context", nil, releaseDoneContext},
	{"fences rise", nil, fencesRise},
	{"fences rise across processes", hasPeer, fencesRisePeer},
	{"fences rise across loss", canLose, fencesRiseAfterLoss},
	{"nothing is left running", nil, nothingLeftRunning},

	{"a lost lease ends its context", canLose, lossEndsContext},
	{"a lost lease is free for the next", canLose, lossFreesKey},
	{"release tells that the lease ran out", canLose, releaseTellsExpired},
	{"release tells that the lease was stolen", canBeStolen, releaseTellsStolen},
	{"a stolen lease ends its context", canBeStolen, stolenEndsContext},

	{"an interrupt ends the context and nothing else", nil, interruptHolder},
	{"an interrupt reaches another process", hasPeer, interruptPeer},
	{"an interrupt of a free key does nothing", nil, interruptFree},
	{"an interrupt spares those who wait", nil, interruptSparesWaiters},
	{"an interrupt by another process spares the next holder", hasPeer, interruptSparesNext},

	{"a backend that is away is not busy", canBreak, awayIsUnavailable},
	{"a backend that is away does not hold up a cancelled caller", canBreak, awayWhileCancelled},
	{"a backend that goes away ends the wait", canBreakPeer, goesAwayWhileWaiting},
	{"a backend that is away ends the lease", canBreak, awayEndsLease},
	{"a release while the backend is away is made up for", canBreak, releaseWhileAway},
}
