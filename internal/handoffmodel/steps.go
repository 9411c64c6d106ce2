package handoffmodel

// A Step leads from one State to the next.
type Step struct {
	Kind  Kind
	Token Token // that it is about
	Next  Token // that a leave names
	Pod   int   // whose step it is
	Reply Reply // to the command that it executes
	Owner Token // that it has granted the lock to
}

// Kind is the kind of a Step. The first of those that are possible is what comes
// next when nothing fails any more.
type Kind uint8

const (
	Execute Kind = iota // Redis runs a command
	Hear                // an answer arrives
	Receive             // a grant arrives
	Leave               // Redis runs a leave that names nobody
	Release             // a holder is done
	Fail                // a leave has had no answer: it goes on without naming anybody
	Reopen              // a waiter opens its inbox
	Begin               // a pod wants its next turn
	Again               // a waiter asks again: it is time to
	Notice              // Redis sees that a connection is dead
	Tick                // time passes
	Expire              // the lock expires

	// What can happen, but is not to be counted on.
	Join       // somebody comes, and waits in line
	Pass       // a holder gives its lease to who is next in line
	Retry      // a leave has had no answer, and is sent again
	Early      // a waiter asks again without need
	Renew      // a holder extends its lease
	Cancel     // a waiter gives up
	Crash      // a pod dies
	GiveUp     // a caller gives up on an answer
	LoseGrant  // a grant is lost
	LoseLeave  // a leave is lost: only without LeaveRetried
	BeginAgain // a pod asks with its last token: only without FreshToken
	Cut        // an inbox is cut off
	Restart    // Redis starts again, empty

	toBeCountedOn = Expire
)

// steps reports every step that is possible, with what it leads to. The order
// is always the same.
func (w *world) steps(report func(Step, *world)) {
	do := func(s Step, n *world) {
		if n.Redis.Owner != w.Redis.Owner {
			s.Owner = n.Redis.Owner
		}
		n.normalise()
		report(s, n)
	}
	w.networkSteps(do)
	for pod := range w.cfg.Pods {
		// what does a step of the pod's in a copy of the world.
		act := func(k Kind, what func(n *world)) {
			n := *w
			what(&n)
			do(Step{Kind: k, Pod: pod, Token: max(w.current(pod), n.current(pod))}, &n)
		}
		switch p := &w.Pods[pod]; p.Phase {
		case Idle:
			w.idleSteps(pod, act)
		case Waiting:
			w.waitingSteps(pod, act)
		case Holding:
			act(Release, func(n *world) { n.release(pod) })
			if p.Passed < w.cfg.Passes && p.Line[0].Turn != 0 {
				act(Pass, func(n *world) { n.passOn(pod) })
			}
			if p.Bound < w.bound(pod) && !w.asking(pod) {
				act(Renew, func(n *world) { n.askExtend(pod) })
			}
		case Releasing:
			w.releasingSteps(pod, act)
		case Crashed:
			if p.Inbox == HalfOpen {
				act(Notice, func(n *world) { n.Pods[pod].Inbox = Closed })
			}
		}
		w.lineSteps(pod, do)
		w.crashSteps(pod, act)
	}
	w.serverSteps(do)
}

// networkSteps execute, deliver and lose what is under way, in any order.
func (w *world) networkSteps(do func(Step, *world)) {
	for i, c := range w.Commands {
		if c.Token == 0 {
			break
		}
		n := *w
		reply := n.execute(i)
		do(Step{Kind: Execute, Token: c.Token, Next: c.Next, Reply: reply}, &n)
		if c.Awaited && w.Faults.Answers > 0 {
			n := *w
			n.Faults.Answers--
			n.giveUp(i)
			do(Step{Kind: GiveUp, Token: c.Token, Next: c.Next}, &n)
		}
	}
	for i, a := range w.Answers {
		if a.Token == 0 {
			break
		}
		n := *w
		n.hear(take(n.Answers[:], i))
		do(Step{Kind: Hear, Token: a.Token, Reply: a.Reply}, &n)
	}
	for i, g := range w.Grants {
		if g.Token == 0 {
			break
		}
		if w.heeds(g.Token) {
			n := *w
			n.receive(take(n.Grants[:], i))
			do(Step{Kind: Receive, Token: g.Token}, &n)
		}
		if w.Faults.Grants > 0 {
			n := *w
			n.Faults.Grants--
			take(n.Grants[:], i)
			do(Step{Kind: LoseGrant, Token: g.Token}, &n)
		}
	}
	// A leave executes some time after it was decided on: it is sent until it is
	// acknowledged (rule 3).
	for t := Token(1); t <= maxPods*maxTurns; t++ {
		if !w.Leaves.has(t) {
			continue
		}
		n := *w
		n.leave(t)
		do(Step{Kind: Leave, Token: t}, &n)
		if !w.keeps(LeaveRetried) {
			n := *w
			n.Leaves.remove(t)
			do(Step{Kind: LoseLeave, Token: t}, &n)
		}
	}
}

func (w *world) idleSteps(pod int, act func(Kind, func(*world))) {
	p := &w.Pods[pod]
	if w.mayBegin(pod) {
		act(Begin, func(n *world) { n.begin(pod) })
	}
	if !w.keeps(FreshToken) && p.Come > 0 && w.Leaves.has(tokenOf(pod, p.Come)) {
		act(BeginAgain, func(n *world) {
			n.Pods[pod].Come--
			n.begin(pod)
		})
	}
}

// mayBegin reports whether a pod wants another turn. Pods that are alike are
// named in the order of their first turns, which loses nothing.
func (w *world) mayBegin(pod int) bool {
	c := w.cfg.Pods[pod]
	if w.Pods[pod].Come == 0 {
		for i := range pod {
			if p := &w.Pods[i]; p.Phase == Idle && p.Come == 0 && w.cfg.Pods[i] == c {
				return false
			}
		}
	}
	return w.Pods[pod].Come < c.Turns || w.Pods[pod].Line[0].Turn != 0
}

func (w *world) waitingSteps(pod int, act func(Kind, func(*world))) {
	p := &w.Pods[pod]
	if w.Faults.Cancels > 0 {
		act(Cancel, func(n *world) { n.Faults.Cancels--; n.cancel(pod) })
	}
	inTime := !w.cfg.Still && w.keeps(AskAgain)
	switch {
	case w.asking(pod):
	case p.AskNow && p.Inbox == Open, inTime && p.Since > 0:
		act(Again, func(n *world) { n.ask(pod) })
	case inTime, p.AskNow && p.Inbox == Closed: // it could not be opened
		act(Early, func(n *world) { n.ask(pod) })
	}
	w.inboxSteps(pod, act)
}

func (w *world) inboxSteps(pod int, act func(Kind, func(*world))) {
	switch {
	case w.Pods[pod].Inbox != Open: // rule 15: it is seen, sooner or later
		act(Reopen, func(n *world) { n.Pods[pod].Inbox = Open })
	case w.Faults.Cuts > 0:
		act(Cut, func(n *world) { n.Faults.Cuts--; n.cut(pod, Closed) })
		if !w.cfg.Still {
			act(Cut, func(n *world) { n.Faults.Cuts--; n.cut(pod, HalfOpen) })
		}
	}
}

func (w *world) releasingSteps(pod int, act func(Kind, func(*world))) {
	if !w.asking(pod) {
		act(Fail, func(n *world) { n.end(pod) })
		if w.mayRetry(pod) {
			act(Retry, func(n *world) { n.Pods[pod].Retried = true; n.sendLeave(pod) })
		}
	}
	w.inboxSteps(pod, act)
}

// lineSteps are those of the callers in line.
func (w *world) lineSteps(pod int, do func(Step, *world)) {
	p, c := &w.Pods[pod], w.cfg.Pods[pod]
	if w.current(pod) != 0 && p.Come < c.Turns && (c.Line > 0 && p.Line[c.Line-1].Turn == 0) {
		n := *w
		n.come(pod)
		do(Step{Kind: Join, Pod: pod, Token: tokenOf(pod, n.Pods[pod].Come)}, &n)
	}
	for i, c := range p.Line {
		if c.Turn != 0 && w.Faults.Cancels > 0 {
			n := *w
			n.Faults.Cancels--
			n.quit(pod, i)
			do(Step{Kind: Cancel, Pod: pod, Token: tokenOf(pod, c.Turn)}, &n)
		}
	}
}

func (w *world) crashSteps(pod int, act func(Kind, func(*world))) {
	p := &w.Pods[pod]
	switch {
	case w.Faults.Crashes == 0 || p.Phase == Crashed:
	case w.cfg.Still:
		if p.Phase == Waiting && !w.asking(pod) && w.Redis.Owner != w.current(pod) && !w.believed(w.current(pod)) && w.Leaves&tokensOf(pod) == 0 {
			act(Crash, func(n *world) { n.Faults.Crashes--; n.crash(pod, Closed) })
		}
	case p.Phase != Idle || p.Line[0].Turn != 0 || w.Leaves&tokensOf(pod) != 0:
		act(Crash, func(n *world) { n.Faults.Crashes--; n.crash(pod, Closed) })
		if p.Inbox != Closed {
			act(Crash, func(n *world) { n.Faults.Crashes--; n.crash(pod, HalfOpen) })
		}
	}
}

// serverSteps are the passing of time, and what Redis does by itself.
func (w *world) serverSteps(do func(Step, *world)) {
	r := &w.Redis
	if !w.cfg.Still && (r.Owner == 0 || r.Age < r.TTL+w.cfg.Drift) {
		n := *w
		n.tick()
		do(Step{Kind: Tick}, &n)
	}
	if !w.cfg.Still && r.Owner != 0 && r.Age >= r.TTL {
		n := *w
		n.free()
		do(Step{Kind: Expire, Token: r.Owner}, &n)
	}
	if w.Faults.Restarts > 0 {
		n := *w
		n.Faults.Restarts--
		n.restart()
		do(Step{Kind: Restart}, &n)
	}
}
