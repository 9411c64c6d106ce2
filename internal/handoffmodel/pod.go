package handoffmodel

// begin starts a pod's next turn: with a token of its own (rule 4), and by
// asking.
func (w *world) begin(pod int) {
	p := &w.Pods[pod]
	if p.Line[0].Turn == 0 {
		w.come(pod)
	}
	w.callNext(pod)
	w.ask(pod)
}

// become starts a phase. What only belongs to the one before is gone.
func (p *Pod) become(phase Phase) {
	*p = Pod{Phase: phase, Turn: p.Turn, Come: p.Come, Line: p.Line, Inbox: p.Inbox}
}

// ask sends the acquire of a waiter.
func (w *world) ask(pod int) {
	p := &w.Pods[pod]
	p.AskNow = false
	if !w.keeps(BoundOfAnswered) {
		p.Since, p.Queued = 0, false
	}
	put(w.Commands[:], Command{Token: w.current(pod), Inbox: p.Inbox != Closed, Awaited: true})
}

// askExtend has a holder's lease extended. Unless the Config is Slow, that is
// one step: a late extend brings less, and lengthens only what its token has.
func (w *world) askExtend(pod int) {
	t := w.current(pod)
	if w.cfg.Slow {
		put(w.Commands[:], Command{Token: t, Extend: true, Awaited: true})
	} else {
		w.hear(w.extend(t))
	}
}

// asking reports whether a pod awaits an answer for its current token.
func (w *world) asking(pod int) bool {
	t := w.current(pod)
	for i := range w.Commands {
		if c := &w.Commands[i]; c.Awaited && c.Token == t {
			return true
		}
	}
	return w.answered(t)
}

// answered reports whether an answer to a token is under way.
func (w *world) answered(t Token) bool {
	for _, a := range w.Answers {
		if a.Token == t || a.Left == t {
			return true
		}
	}
	return false
}

// execute has Redis run a command, and answer whoever still waits for it.
func (w *world) execute(i int) (r Reply) {
	c := take(w.Commands[:], i)
	var a Answer
	switch {
	case c.Extend:
		a = w.extend(c.Token)
	case c.Next != 0:
		a = w.leaveTo(c.Token, c.Next, c.Inbox)
		a.Left = c.Token
	default:
		a = w.acquire(c.Token, c.Inbox)
	}
	a.Age = c.Age
	switch {
	case c.Awaited && w.cfg.Slow:
		put(w.Answers[:], a)
	case c.Awaited:
		w.hear(a)
	}
	return a.Reply
}

// giveUp stops waiting for the answer to a command, which can still execute.
func (w *world) giveUp(i int) {
	c := &w.Commands[i]
	if !c.Awaited {
		return
	}
	c.Awaited, c.Age = false, 0
	switch {
	case c.Extend:
	case c.Next == 0:
		w.Doubts.add(c.Token)
	case w.keeps(DoubtOfNext): // rule 12
		w.Doubts.add(c.Next)
	}
}

// hear takes an answer in.
func (w *world) hear(a Answer) {
	pod := a.Token.pod()
	p := &w.Pods[pod]
	if !w.keeps(BoundFromSending) || a.Left != 0 && !w.keeps(NextFromSending) {
		a.Age = 0
	}
	if a.Left != 0 && !w.pass(a.Token) {
		return
	}
	switch a.Reply {
	case Extended:
		if b := w.bound(pod); b > a.Age {
			p.Bound = max(p.Bound, b-a.Age)
		}
		return
	case NotYours:
		w.end(pod) // lost, at once
		return
	}
	if !w.keeps(DoubtStays) {
		w.Doubts.remove(a.Token)
	}
	if p.Phase != Waiting {
		return // granted while it asked
	}
	switch a.Reply {
	case Owned:
		w.hold(pod, a.Age, a.Fence)
	case Queued, Subscribe: // rule 2
		if w.keeps(BoundOfAnswered) {
			p.Since = a.Age
		}
		if w.keeps(FloorOfNewest) || p.Unanswered {
			p.Floor = a.Fence
		}
		p.Unanswered = false
		p.Queued = p.Inbox != Closed
		if a.Reply == Subscribe {
			// Unless a command of his comes late and counts on an inbox of before.
			p.Queued = !w.Doubts.has(a.Token)
		}
		p.AskNow = p.AskNow || a.Reply == Subscribe && w.keeps(AskWithInbox) // rule 10
	case GivenUp:
		if w.cfg.Without == AllRules {
			w.harm = WaiterGivenUp
		}
		w.end(pod)
	}
}

// heeds reports whether a token's pod looks at grants to it. It keeps them until
// there is an answer: rule 2.
func (w *world) heeds(t Token) bool {
	return !w.keeps(GrantKept) ||
		w.waits(t) && (!w.Pods[t.pod()].Unanswered || !w.keeps(AnswerBeforeGrant))
}

// receive takes a grant in. Whoever is done with the token does not answer: its
// leave is under way and will find the lock, or has freed it already.
func (w *world) receive(g Grant) {
	if !w.counts(g) {
		return
	}
	p := &w.Pods[g.Token.pod()]
	switch {
	case p.Unanswered && w.keeps(AnswerBeforeGrant):
	case !w.keeps(BoundBeforeGrant):
		w.hold(g.Token.pod(), 0, g.Fence)
	default:
		w.hold(g.Token.pod(), p.Since, g.Fence)
	}
}

// counts reports whether a grant tells a waiter that it has a lease: rule 2.
func (w *world) counts(g Grant) bool {
	return w.waits(g.Token) && (g.Fence > w.Pods[g.Token.pod()].Floor || !w.keeps(GrantAboveFloor))
}

// hold starts a lease that was not the pod's before since. If that leaves no
// time the pod asks again instead.
func (w *world) hold(pod int, since Ticks, f Fence) {
	if since >= w.bound(pod) {
		return
	}
	w.checkStart(f)
	p := &w.Pods[pod]
	p.become(Holding)
	p.Bound = w.bound(pod) - since
}

// bound returns how long a new lease can be counted on. Redis keeps the lock for
// as many ticks of the pod's clock, and for Drift more at most.
func (w *world) bound(pod int) Ticks {
	ttl := w.cfg.Pods[pod].TTL
	if !w.keeps(DriftAllowed) {
		return ttl + w.cfg.Drift
	}
	return ttl
}

// end gives the current token up, be it granted, queued, lost, or asked for
// without an answer yet.
func (w *world) end(pod int) {
	t := w.current(pod)
	w.stopAsking(t)
	w.Leaves.add(t)
	w.Pods[pod].become(Idle)
}

// stopAsking gives up on all answers to a token.
func (w *world) stopAsking(t Token) {
	for i := range w.Commands {
		if w.Commands[i].Token == t {
			w.giveUp(i)
		}
	}
	drop(w.Answers[:], func(a Answer) bool {
		if a.Token != t {
			return false
		}
		w.Doubts.add(t)
		return true
	})
}

// cancel ends waiting. The lock may be granted by now, so it takes a leave too.
func (w *world) cancel(pod int) {
	t := w.current(pod)
	w.end(pod)
	if !w.keeps(CancelFrees) {
		w.dequeue(t)
		w.Leaves.remove(t)
	}
}

// crash ends a pod without a word. What it has sent can still execute, and its
// connection may look alive to Redis.
func (w *world) crash(pod int, inbox Inbox) {
	for i := range w.Commands {
		if t := w.Commands[i].Token; t != 0 && t.pod() == pod {
			w.giveUp(i)
		}
	}
	drop(w.Answers[:], func(a Answer) bool { return a.Token != 0 && a.Token.pod() == pod })
	w.Leaves &^= tokensOf(pod)
	w.Doubts &^= tokensOf(pod)
	w.Pods[pod] = Pod{Phase: Crashed, Inbox: inbox}
}

// cut cuts a waiter's inbox off, and with it the grants that are under way.
func (w *world) cut(pod int, to Inbox) {
	w.loseInbox(pod, to)
	drop(w.Grants[:], func(g Grant) bool { return g.Token != 0 && g.Token.pod() == pod })
}

// loseInbox notes that a pod hears of nothing any more, and may have missed
// something: rule 10.
func (w *world) loseInbox(pod int, to Inbox) {
	p := &w.Pods[pod]
	p.Inbox, p.Queued = to, false
	switch {
	case !w.keeps(AskAfterCut), w.asking(pod) && !w.keeps(CutWhileAsking):
	case p.Phase == Waiting, p.Phase == Releasing:
		p.AskNow = true
	}
}
