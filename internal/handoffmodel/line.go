package handoffmodel

// come has somebody wait in line, with a token of his own and by his age.
func (w *world) come(pod int) {
	p := &w.Pods[pod]
	c := Caller{Turn: p.Come + 1, Ticket: w.nextTicket()}
	p.Come++
	put(p.Line[:], c)
}

// callNext gives the turn to the first in line.
func (w *world) callNext(pod int) {
	p := &w.Pods[pod]
	c := take(p.Line[:], 0)
	p.become(Waiting)
	p.Turn, p.Ticket, p.Unanswered = c.Turn, c.Ticket, true
}

// release has a holder leave. Its leave names who is next in line, if anybody is
// (rule 12); the turn passes on when it is answered.
func (w *world) release(pod int) {
	p := &w.Pods[pod]
	next := p.Line[0].Turn
	if next == 0 {
		w.end(pod)
		return
	}
	w.stopAsking(w.current(pod))
	p.become(Releasing)
	p.Next = next
	w.sendLeave(pod)
}

// passOn gives a holder's lease to who is next in line: with its token, what is
// left of its bound, and the next fence of its block.
func (w *world) passOn(pod int) {
	p := &w.Pods[pod]
	take(p.Line[:], 0)
	p.Passed++
	if !w.keeps(BoundGoesOn) {
		p.Bound = w.bound(pod)
	}
	w.checkStart(w.Newest + 1) // the newest is the holder's own
}

// mayRetry reports whether a leave without an answer is sent again: once, and as
// long as whom it names is there. Redis may have forgotten that he has gone.
func (w *world) mayRetry(pod int) bool {
	p := &w.Pods[pod]
	return !p.Retried && (p.Line[0].Turn == p.Next || !w.keeps(SecondNamesPresent))
}

// sendLeave sends the leave of a holder that is releasing.
func (w *world) sendLeave(pod int) {
	p := &w.Pods[pod]
	p.AskNow = false
	put(w.Commands[:], Command{Token: w.current(pod), Next: tokenOf(pod, p.Next), Inbox: p.Inbox != Closed, Awaited: true})
}

// pass gives the turn on once a leave is answered, and reports whether the answer
// is for who has the turn now. Otherwise that one has gone, and whoever is next
// asks himself.
func (w *world) pass(named Token) bool {
	pod := named.pod()
	p := &w.Pods[pod]
	if p.Line[0].Turn != named.turn() {
		p.become(Idle)
		return false
	}
	askNow := p.AskNow // a cut since the leave was sent
	w.callNext(pod)
	p.AskNow = askNow
	return true
}

// quit has the caller at a place in line go. He leaves, for good, where a leave
// that names him can still execute.
func (w *world) quit(pod, place int) {
	p := &w.Pods[pod]
	turn := take(p.Line[:], place).Turn
	t := tokenOf(pod, turn)
	if named := p.Phase == Releasing && p.Next == turn || w.Doubts.has(t); !named || !w.keeps(NextLeaves) {
		return
	}
	if w.keeps(NextLeavesForGood) {
		w.Doubts.add(t)
	}
	w.Leaves.add(t)
}
