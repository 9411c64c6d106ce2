package handoffmodel

// A Rule can be taken away by a Config. Numbers are those of RULES.md, here and
// in the comments of the other files.
type Rule uint8

// What is done, and what would be done instead.
const (
	AllRules Rule = iota

	// Rule 1. A waiter whose inbox is not counted is passed over. Instead: it is
	// granted the lock.
	SkipUncounted
	// Rule 1. Redis counts subscribers before it grants. Instead: it goes by the
	// receivers of the message, once it is out. Those elsewhere hear it too.
	CountFirst

	// Rule 2. A grant counts if it is above the fence of the newest "not yet".
	// Instead: always.
	GrantAboveFloor
	// Rule 2. Each "not yet" replaces that fence. Instead: the first one sets it.
	FloorOfNewest
	// Rule 2. That fence follows the server's clock, as all do. Instead: it is
	// the stored one.
	FloorByClock
	// Rule 2. The bound is of the same answer. Instead: it counts from the newest
	// question, answered or not.
	BoundOfAnswered
	// Rule 2. The bound counts from when the question was sent. Instead: from
	// when the answer arrived.
	BoundFromSending
	// Rule 2. That of a granted lease does too. Instead: it counts from when the
	// grant arrived.
	BoundBeforeGrant
	// Rule 2. A grant that outruns the answer is kept until that is there.
	// Instead: it is not heard.
	GrantKept
	// Rule 2. It does not count before. Instead: it does, and the bound counts
	// from the first question.
	AnswerBeforeGrant

	// Rule 3. A leave with an acquire unanswered writes a tombstone. Instead: not.
	Tombstone
	// Rule 3. An acquire stays unanswered, whatever comes later. Instead: the
	// answer to a later one will do.
	DoubtStays
	// Rule 3. A leave is sent until it is acknowledged. Instead: once.
	LeaveRetried

	// Rule 4. A token named in a leave is never held again. Instead: who asks
	// again while the leave is under way keeps the token.
	FreshToken

	// Rule 6. "Already yours" re-arms the TTL. Instead: not.
	OwnedRearms
	// Rule 6. A grant is written with the waiter's TTL. Instead: with that of the
	// lock before.
	TTLOfWaiter

	// Rule 8. Who asks and finds the key free grants to the oldest waiter.
	// Instead: takes it.
	NoBarging
	// Rule 8. Likewise. Instead: joins the queue and leaves the key free.
	AskGrants
	// Rule 8. Who leaves grants to the oldest waiter. Instead: leaves the key free.
	LeaveGrants

	// Rule 9. After an empty restart nothing is granted for one TTL. Instead: at
	// once.
	Guard
	// Rule 9. For the longest TTL that there is. Instead: for the asker's own.
	GuardForLongest
	// Rule 9. A leave grants the key that it frees. Instead: any that is free.
	LeaveGrantsOwn

	// Rule 10. A waiter without an inbox is queued all the same. Instead: once
	// it has one.
	PlaceBeforeInbox
	// Rule 10. It asks again when it has. Instead: not.
	AskWithInbox
	// Rule 10. A waiter asks again after its inbox was cut. Instead: not.
	AskAfterCut
	// Rule 10. Also where that was before the answer. Instead: only after it.
	CutWhileAsking

	// Rule 11. A waiter asks again as time passes. Instead: not.
	AskAgain
	// Rule 11. That refreshes its entry. Instead: not.
	AskRefreshes

	// Rule 12. A leave that names who is next honours his tombstone. Instead: it
	// enters him.
	TombstoneOfNext
	// Rule 12. A leave that is sent again does not name who has gone. Instead: it
	// does.
	SecondNamesPresent
	// Rule 12. The second leave finds who is next the owner, and says so.
	// Instead: it enters him.
	SecondFindsNext
	// Rule 12. That re-arms the TTL. Instead: not.
	SecondRearms
	// Rule 12. Whoever has waited longest is granted the lock. Instead: who is
	// next.
	NextInOrder
	// Rule 12. A leave without an answer is an acquire of who is next without
	// one. Instead: only its own acquires count.
	DoubtOfNext
	// Rule 12. His bound counts from when the leave was sent. Instead: from when
	// its answer arrived.
	NextFromSending
	// Rule 12. Who goes while a leave names him leaves too. Instead: he just goes.
	NextLeaves
	// Rule 12. With a tombstone. Instead: without.
	NextLeavesForGood

	// Rule 12. A lease that is passed on is counted on as before. Instead: for its
	// TTL, from then on.
	BoundGoesOn
	// Rule 12. Fences come in blocks. Instead: one by one.
	FencesInBlocks

	// Rule 13. The place in the queue goes by age. Instead: by when the command
	// arrives.
	TicketByAge

	// Rule 14. A fence is at least the server's time. Instead: just stored + 1.
	FenceByClock
	// Rule 14. A fence is at least stored + 1. Instead: just the server's time.
	FenceByCounter

	// A leave frees the lock if it is the token's. Instead: in any case.
	LeaveCompares
	// A leave takes the token out of the queue. Instead: not.
	LeaveDequeues
	// A waiter that gives up leaves as a holder does. Instead: it only takes its
	// entry out of the queue.
	CancelFrees
	// A lease ends by the pod's own clock. Instead: when Redis says so.
	OwnClock
	// That clock allows for drift. Instead: not.
	DriftAllowed
)

// Rules is the number of those that can be taken away.
const Rules = int(DriftAllowed)
