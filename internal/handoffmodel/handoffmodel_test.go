package handoffmodel_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	model "github.com/reqlock/reqlock/internal/handoffmodel"
)

// Who competes, each pod as its TTL, its turns, and how many wait in line.
var (
	pair  = []model.PodConfig{{TTL: 2, Turns: 1}, {TTL: 2, Turns: 1}}
	long  = []model.PodConfig{{TTL: 3, Turns: 1}, {TTL: 3, Turns: 1}}
	mixed = []model.PodConfig{{TTL: 3, Turns: 1}, {TTL: 2, Turns: 1}}
	again = []model.PodConfig{{TTL: 2, Turns: 2}, {TTL: 2, Turns: 1}} // A comes back
	trio  = []model.PodConfig{{TTL: 2, Turns: 1}, {TTL: 2, Turns: 1}, {TTL: 2, Turns: 1}}
	rise  = []model.PodConfig{{TTL: 2, Turns: 1}, {TTL: 3, Turns: 1}, {TTL: 3, Turns: 1}}
	alone = []model.PodConfig{{TTL: 2, Turns: 2, Line: 1}}
	crowd = []model.PodConfig{{TTL: 2, Turns: 3, Line: 2}}
	line  = []model.PodConfig{{TTL: 2, Turns: 2, Line: 1}, {TTL: 2, Turns: 1}}
	queue = []model.PodConfig{{TTL: 2, Turns: 3, Line: 2}, {TTL: 2, Turns: 1}}
)

type exploration struct {
	name   string
	config model.Config
}

// Explored always.
var explorations = []exploration{
	{"two pods", model.Config{Pods: pair, Faults: model.Faults{Cancels: 2}}},
	{"two pods, crash", model.Config{Pods: pair, Faults: model.Faults{Cancels: 1, Crashes: 1}}},
	{"two pods, lost answer", model.Config{Pods: pair, Faults: model.Faults{Cancels: 1, Answers: 1}}},
	{"two pods, lost grant", model.Config{Pods: pair, Faults: model.Faults{Cancels: 1, Grants: 1}}},
	{"two pods, cut inbox", model.Config{Pods: pair, Faults: model.Faults{Cancels: 1, Cuts: 1}}},
	{"two pods, restart", model.Config{Pods: pair, Faults: model.Faults{Restarts: 1}}},
	{"two pods, drift", model.Config{Pods: pair, Drift: 1, Faults: model.Faults{Cancels: 1, Crashes: 1}}},
	{"two pods, slow answers", model.Config{Pods: pair, Slow: true, Faults: model.Faults{Cancels: 1}}},
	{"two pods, longer TTL", model.Config{Pods: long, Faults: model.Faults{Cancels: 1, Crashes: 1}}},
	{"two pods, two TTLs", model.Config{Pods: mixed, Faults: model.Faults{Cancels: 1, Crashes: 1}}},
	{"one comes back", model.Config{Pods: again}},
	{"one comes back, crash", model.Config{Pods: again, Faults: model.Faults{Crashes: 1}}},
	{"one comes back, lost grant", model.Config{Pods: again, Faults: model.Faults{Grants: 1}}},
	{"one comes back, still", model.Config{Pods: again, Still: true, Unsubscribed: true, Faults: model.Faults{Cancels: 2, Crashes: 1, Cuts: 1}}},
	{"three pods", model.Config{Pods: trio}},
	{"three pods, still", model.Config{Pods: trio, Still: true, Unsubscribed: true, Faults: model.Faults{Cancels: 1, Crashes: 1, Cuts: 1}}},
	{"one in line", model.Config{Pods: line}},
	{"one in line, passed on", model.Config{Pods: line, Passes: 1}},
	{"one in line, still", model.Config{Pods: line, Still: true, Unsubscribed: true, Faults: model.Faults{Cancels: 2, Crashes: 1, Cuts: 1}}},
	{"one in line, alone", model.Config{Pods: alone, Faults: model.Faults{Cancels: 2, Answers: 2}}},
	{"one in line, alone, slow answers", model.Config{Pods: alone, Slow: true, Faults: model.Faults{Cancels: 1, Answers: 2}}},
	{"one in line, alone, restart", model.Config{Pods: alone, Faults: model.Faults{Cancels: 1, Answers: 1, Restarts: 1}}},
	{"one in line, alone, passed on", model.Config{Pods: alone, Passes: 1, Faults: model.Faults{Cancels: 1, Answers: 2, Restarts: 1}}},
	{"two in line, still, passed on", model.Config{Pods: queue, Still: true, Passes: 1, Faults: model.Faults{Cancels: 1, Crashes: 1, Cuts: 1}}},
	{"two in line, alone, passed on", model.Config{Pods: crowd, Passes: 1, Faults: model.Faults{Cancels: 1, Answers: 1}}},
	{"two in line, alone", model.Config{Pods: crowd, Faults: model.Faults{Cancels: 1, Answers: 1}}},
	{"two in line, still", model.Config{Pods: queue, Still: true, Faults: model.Faults{Cancels: 1, Crashes: 1, Cuts: 1}}},
}

// Explored too where there is no race detector.
var largeExplorations = []exploration{
	{"two pods, one fault of each kind", model.Config{Pods: pair, Faults: model.Faults{Cancels: 1, Crashes: 1, Answers: 1, Cuts: 1}}},
	{"two pods, two restarts", model.Config{Pods: pair, Faults: model.Faults{Restarts: 2}}},
	{"two pods, slow answers, lost answer", model.Config{Pods: pair, Slow: true, Unsubscribed: true, Faults: model.Faults{Cancels: 1, Answers: 1}}},
	{"two pods, two TTLs, restart", model.Config{Pods: mixed, Drift: 1, Faults: model.Faults{Cancels: 1, Restarts: 1}}},
	{"one comes back, gives up", model.Config{Pods: again, Drift: 1, Faults: model.Faults{Cancels: 2}}},
	{"one comes back, crash, gives up", model.Config{Pods: again, Faults: model.Faults{Cancels: 1, Crashes: 1}}},
	{"one comes back, cut inbox", model.Config{Pods: again, Faults: model.Faults{Cuts: 1}}},
	{"one comes back, restart", model.Config{Pods: again, Faults: model.Faults{Restarts: 1}}},
	{"one comes back, slow answers", model.Config{Pods: again, Slow: true, Faults: model.Faults{Cancels: 1}}},
	{"three pods, gives up", model.Config{Pods: trio, Drift: 1, Faults: model.Faults{Cancels: 1}}},
	{"three pods, crash", model.Config{Pods: trio, Faults: model.Faults{Crashes: 1}}},
	{"three pods, lost answer", model.Config{Pods: trio, Faults: model.Faults{Answers: 1}}},
	{"three pods, lost grant", model.Config{Pods: trio, Faults: model.Faults{Grants: 1}}},
	{"three pods, two TTLs", model.Config{Pods: rise}},
	{"one in line, gives up", model.Config{Pods: line, Faults: model.Faults{Cancels: 1}}},
	{"one in line, crash", model.Config{Pods: line, Faults: model.Faults{Crashes: 1}}},
	{"one in line, lost answer", model.Config{Pods: line, Faults: model.Faults{Answers: 1}}},
	{"one in line, lost grant", model.Config{Pods: line, Faults: model.Faults{Grants: 1}}},
	{"one in line, passed on, gives up", model.Config{Pods: line, Passes: 1, Faults: model.Faults{Cancels: 1}}},
	{"one in line, passed on, crash", model.Config{Pods: line, Passes: 1, Drift: 1, Faults: model.Faults{Crashes: 1}}},
	{"one in line, passed on, lost answer", model.Config{Pods: line, Passes: 1, Faults: model.Faults{Answers: 1}}},
	{"one in line, cut inbox", model.Config{Pods: line, Faults: model.Faults{Cuts: 1}}},
	{"one in line, slow answers", model.Config{Pods: line, Slow: true}},
	{"one in line, not subscribed", model.Config{Pods: line, Unsubscribed: true}},
	{"one in line, alone, one fault of each kind", model.Config{Pods: alone, Faults: model.Faults{Cancels: 1, Crashes: 1, Answers: 1, Grants: 1, Cuts: 1, Restarts: 1}}},
}

func TestProtocolHolds(t *testing.T) {
	rows := explorations
	if !underRace {
		rows = slices.Concat(rows, largeExplorations)
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			r := model.Explore(row.config)
			t.Logf("%d states, %d steps, %s", r.States, r.Steps, time.Since(begun).Round(time.Millisecond))
			if r.Violation != nil {
				t.Error(r.Violation)
			}
			assert.Greater(t, r.States, 1000)
		})
	}
}

// What breaks where a rule is taken away.
type mutation struct {
	number  string
	without model.Rule
	instead string
	config  model.Config
	breaks  model.Property
}

// Tried always.
var mutations = []mutation{
	{"1", model.SkipUncounted, "waiters that are not subscribed are granted", model.Config{Pods: trio, Still: true, Faults: model.Faults{Crashes: 1}}, model.NotServed},
	{"1", model.CountFirst, "PUBLISH says who is subscribed", model.Config{Pods: trio, Faults: model.Faults{Cuts: 1}}, model.TwoLeases},
	{"2", model.GrantAboveFloor, "every grant counts", model.Config{Pods: again}, model.TwoLeases},
	{"2", model.FloorOfNewest, "F is that of the first answer", model.Config{Pods: again}, model.TwoLeases},
	{"2", model.BoundOfAnswered, "s is that of an unanswered question", model.Config{Pods: again}, model.TwoLeases},
	{"2", model.BoundFromSending, "bounds count from the answer", model.Config{Pods: pair, Slow: true}, model.TwoLeases},
	{"2", model.BoundBeforeGrant, "bounds count from the grant", model.Config{Pods: again}, model.TwoLeases},
	{"2", model.GrantKept, "a grant that outruns the answer is not heard", model.Config{Pods: pair, Slow: true, Still: true}, model.NotServed},
	{"3", model.Tombstone, "no tombstone", model.Config{Pods: pair, Faults: model.Faults{Cancels: 1}}, model.TokenStays},
	{"3", model.DoubtStays, "no tombstone after a later answer", model.Config{Pods: pair, Faults: model.Faults{Answers: 1}}, model.TokenStays},
	{"3", model.LeaveRetried, "a leave is sent once", model.Config{Pods: pair}, model.TokenStays},
	{"4", model.FreshToken, "the next turn has the same token", model.Config{Pods: again}, model.FenceFell},
	{"6", model.OwnedRearms, "already yours, TTL not re-armed", model.Config{Pods: again}, model.TwoLeases},
	{"6", model.TTLOfWaiter, "a grant has the releaser's TTL", model.Config{Pods: rise}, model.TwoLeases},
	{"8", model.NoBarging, "an asker takes a free key", model.Config{Pods: trio}, model.Overtaken},
	{"8", model.AskGrants, "an asker leaves a free key alone", model.Config{Pods: again}, model.NotServed},
	{"8", model.LeaveGrants, "a leave does not grant", model.Config{Pods: pair, Still: true}, model.NotServed},
	{"9", model.Guard, "a free key is free after a restart", model.Config{Pods: pair, Faults: model.Faults{Restarts: 1}}, model.TwoLeases},
	{"9", model.GuardForLongest, "the guard lasts for the asker's TTL", model.Config{Pods: mixed, Faults: model.Faults{Restarts: 1}}, model.TwoLeases},
	{"9", model.LeaveGrantsOwn, "a leave grants a key that it has not freed", model.Config{Pods: again, Faults: model.Faults{Cancels: 1, Restarts: 1}}, model.TwoLeases},
	{"10", model.PlaceBeforeInbox, "nobody is queued before he is subscribed", model.Config{Pods: trio, Unsubscribed: true}, model.Overtaken},
	{"10", model.AskWithInbox, "ask, subscribe, then sleep", model.Config{Pods: pair, Still: true, Unsubscribed: true}, model.NotServed},
	{"10", model.AskAfterCut, "nobody asks after a cut", model.Config{Pods: pair, Still: true, Faults: model.Faults{Cuts: 1}}, model.NotServed},
	{"10", model.CutWhileAsking, "nobody asks after a cut before the answer", model.Config{Pods: pair, Still: true, Slow: true, Faults: model.Faults{Cuts: 1}}, model.NotServed},
	{"11", model.AskAgain, "waiters only listen", model.Config{Pods: pair}, model.NotServed},
	{"11", model.AskRefreshes, "asking again does not refresh the entry", model.Config{Pods: trio}, model.Overtaken},
	{"12", model.TombstoneOfNext, "a leave enters who has gone", model.Config{Pods: line, Faults: model.Faults{Cancels: 1}}, model.TokenStays},
	{"12", model.SecondNamesPresent, "the second leave names who has gone", model.Config{Pods: alone, Faults: model.Faults{Cancels: 1, Restarts: 1}}, model.TokenStays},
	{"12", model.SecondFindsNext, "the second leave enters the owner", model.Config{Pods: line, Faults: model.Faults{Answers: 1}}, model.TokenStays},
	{"12", model.SecondRearms, "the second leave does not re-arm the TTL", model.Config{Pods: line, Faults: model.Faults{Answers: 1}}, model.TwoLeases},
	{"12", model.NextInOrder, "a leave grants to its own next", model.Config{Pods: line}, model.Overtaken},
	{"12", model.DoubtOfNext, "a leave without an answer leaves no doubt", model.Config{Pods: alone, Faults: model.Faults{Answers: 1}}, model.TokenStays},
	{"12", model.DoubtStays, "no doubt once the second leave is answered", model.Config{Pods: alone, Faults: model.Faults{Answers: 1}}, model.TokenStays},
	{"12", model.NextFromSending, "the bound of who is next counts from the answer", model.Config{Pods: line, Slow: true}, model.TwoLeases},
	{"12", model.NextLeaves, "who goes from the line just goes", model.Config{Pods: alone, Faults: model.Faults{Cancels: 1}}, model.TokenStays},
	{"12", model.NextLeavesForGood, "and leaves without a tombstone", model.Config{Pods: alone, Faults: model.Faults{Cancels: 1}}, model.TokenStays},
	{"12", model.BoundGoesOn, "who is passed a lease counts on all of it", model.Config{Pods: line, Passes: 1}, model.TwoLeases},
	{"12", model.FencesInBlocks, "fences come one by one", model.Config{Pods: line, Passes: 1}, model.FenceFell},
	{"13", model.TicketByAge, "the place goes by arrival", model.Config{Pods: trio}, model.Overtaken},
	{"14", model.FenceByClock, "fences are just counted", model.Config{Pods: pair, Faults: model.Faults{Restarts: 1}}, model.FenceFell},
	{"14", model.FenceByCounter, "fences are just the time", model.Config{Pods: pair}, model.FenceFell},
	{"leave", model.LeaveCompares, "a leave frees anybody's lock", model.Config{Pods: trio, Still: true, Faults: model.Faults{Cancels: 1}}, model.TwoLeases},
	{"leave", model.LeaveDequeues, "a leave does not take the entry out", model.Config{Pods: pair, Faults: model.Faults{Cancels: 1}}, model.TokenStays},
	{"leave", model.CancelFrees, "giving up only takes the entry out", model.Config{Pods: pair, Faults: model.Faults{Cancels: 1}}, model.TokenStays},
	{"clock", model.OwnClock, "a lease ends when Redis says so", model.Config{Pods: pair}, model.TwoLeases},
	{"clock", model.DriftAllowed, "the whole TTL is counted on", model.Config{Pods: pair, Drift: 1}, model.TwoLeases},
}

// Tried too where there is no race detector.
var largeMutations = []mutation{
	{"2", model.FloorByClock, "F is the stored fence", model.Config{Pods: again, Faults: model.Faults{Restarts: 1}}, model.TwoLeases},
	{"2", model.AnswerBeforeGrant, "a grant counts before there is an answer", model.Config{Pods: line, Faults: model.Faults{Answers: 1}}, model.TwoLeases},
}

func TestEveryRuleIsNeeded(t *testing.T) {
	rows := mutations
	if !underRace {
		rows = slices.Concat(rows, largeMutations)
	}
	for _, row := range rows {
		t.Run(fmt.Sprintf("%s: %s", row.number, row.instead), func(t *testing.T) {
			t.Parallel()
			row.config.Without = row.without
			r := model.Explore(row.config)
			require.NotNil(t, r.Violation, "nothing breaks in %d states", r.States)
			t.Logf("%d states: %s", r.States, r.Violation)
			assert.Equal(t, row.breaks, r.Violation.Property)
		})
	}
}

func TestEveryRuleIsTried(t *testing.T) {
	tried := map[model.Rule]bool{}
	for _, row := range slices.Concat(mutations, largeMutations) {
		tried[row.without] = true
	}
	assert.Len(t, tried, model.Rules)
}

// Every violation can be looked into again: it is found in the same way.
func TestExploreRepeats(t *testing.T) {
	c := model.Config{Pods: again, Without: model.GrantAboveFloor}
	assert.Equal(t, model.Explore(c), model.Explore(c))
}

func ExampleExplore() {
	r := model.Explore(model.Config{
		Pods:    []model.PodConfig{{TTL: 2, Turns: 1}, {TTL: 2, Turns: 1}},
		Faults:  model.Faults{Cancels: 1},
		Without: model.Tombstone,
	})
	fmt.Print(r.Violation)
	// Output:
	// Redis keeps a token whose pod is done with it, after 4 steps:
	//   1. A1 begins to wait and asks
	//   2. A1 gives up waiting
	//   3. Redis runs the leave of A1
	//   4. Redis runs a command of A1: it is the owner
}
