package handoffmodel

import "math/bits"

// normalise gives the same form to States that differ in nothing that can still
// matter, so that only one of them is explored.
func (w *world) normalise() {
	w.forget()
	w.renumber()
	sortList(w.Commands[:], func(c Command) int {
		return int(c.Token)<<16 | int(c.Next)<<8 | bit(c.Extend)<<7 | bit(c.Awaited)<<6 | bit(c.Inbox)<<5 | int(c.Age)
	})
	sortList(w.Answers[:], func(a Answer) int { return int(a.Token) }) // a pod awaits one at a time
	sortList(w.Grants[:], func(g Grant) int { return int(g.Token)<<8 | int(g.Fence) })
}

// forget drops what has no effect any more.
func (w *world) forget() {
	drop(w.Commands[:], func(c Command) bool { return c.Extend && !c.Awaited }) // lengthens what its token still has, at most
	drop(w.Grants[:], func(g Grant) bool { return g.Token != 0 && w.stale(g) })
	open := w.Leaves // tokens that Redis will still hear of
	for _, c := range w.Commands {
		open.add(c.Token)
		open.add(c.Next)
	}
	for pod := range w.cfg.Pods {
		p := &w.Pods[pod]
		open.add(w.current(pod))
		for _, c := range p.Line {
			if c.Turn != 0 {
				open.add(tokenOf(pod, c.Turn))
			}
		}
		if p.Phase == Releasing && !w.keeps(SecondNamesPresent) {
			open.add(tokenOf(pod, p.Next))
		}
		p.AskNow = p.AskNow && w.cfg.Still // otherwise it may ask at any time
		if w.cfg.Without == AllRules {
			p.Floor = 0 // what is not above it has just been dropped, and what comes is
		}
	}
	w.Doubts &= open
	w.Redis.Dead &= open
}

// stale reports whether a grant will never count.
func (w *world) stale(g Grant) bool {
	p := &w.Pods[g.Token.pod()]
	early := w.inLine(g.Token) || w.waits(g.Token) && p.Unanswered
	if !early && !w.counts(g) {
		return true // the token does not come back, and the floor does not fall
	}
	// It is for after an answer, or too late for the bound that there is; and the
	// answer that is to come will be above it, unless that is under way already.
	return w.cfg.Without == AllRules && (early || p.Since >= w.bound(g.Token.pod())) && !w.answered(g.Token)
}

// renumber closes the gaps in fences and tickets.
func (w *world) renumber() {
	var fences, tickets uint64 // the numbers in use
	w.fences(func(f *Fence) { fences |= 1 << *f })
	if w.Redis.Owner != 0 {
		fences |= 1 << w.first()
	}
	w.fences(func(f *Fence) { *f = Fence(rank(fences, uint8(*f))) })
	w.tickets(func(t *Ticket) { tickets |= 1 << *t })
	w.tickets(func(t *Ticket) { *t = Ticket(rank(tickets, uint8(*t))) })
}

// rank returns how many numbers of a set are from 1 to n.
func rank(set uint64, n uint8) int { return bits.OnesCount64(set & (1<<(n+1) - 2)) }

func (w *world) fences(visit func(*Fence)) {
	visit(&w.Redis.Fence)
	visit(&w.Newest)
	for i := range w.Pods {
		visit(&w.Pods[i].Floor)
	}
	for i := range w.Answers {
		visit(&w.Answers[i].Fence)
	}
	for i := range w.Grants {
		visit(&w.Grants[i].Fence)
	}
}

func (w *world) tickets(visit func(*Ticket)) {
	for i := range w.Pods {
		p := &w.Pods[i]
		visit(&p.Ticket)
		for j := range p.Line {
			visit(&p.Line[j].Ticket)
		}
	}
	for i := range w.Redis.Queue {
		visit(&w.Redis.Queue[i].Ticket)
	}
}

// sortList sorts what a list has in front of its end.
func sortList[E comparable](list []E, key func(E) int) {
	var end E
	for i := range list {
		for j := i; j > 0 && list[j] != end && key(list[j]) < key(list[j-1]); j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
