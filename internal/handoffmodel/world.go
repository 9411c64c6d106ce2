package handoffmodel

// world is a State while a step changes it.
type world struct {
	State
	cfg   *Config
	freed Ticks    // the TTL of the lock that the step has freed
	harm  Property // that the step has broken
}

// start returns the State that everything begins with.
func start(cfg *Config) *world {
	w := &world{cfg: cfg}
	w.Faults = cfg.Faults
	for i := range cfg.Pods {
		if !cfg.Unsubscribed {
			w.Pods[i].Inbox = Open
		}
	}
	return w
}

// keeps reports whether a rule is in force.
func (w *world) keeps(r Rule) bool { return w.cfg.Without != r }

// ttl returns the TTL that a token's lock is written with.
func (w *world) ttl(t Token) Ticks { return w.cfg.Pods[t.pod()].TTL }

// ticket returns the age of a token's caller as a place, 0 if nobody waits.
func (w *world) ticket(t Token) Ticket {
	p := &w.Pods[t.pod()]
	if w.waits(t) {
		return p.Ticket
	}
	for _, c := range p.Line {
		if c.Turn == t.turn() {
			return c.Ticket
		}
	}
	return 0
}

// inLine reports whether a token is that of a caller in line.
func (w *world) inLine(t Token) bool { return !w.waits(t) && w.ticket(t) != 0 }

// inbox returns the inbox of a token's pod.
func (w *world) inbox(t Token) Inbox { return w.Pods[t.pod()].Inbox }

// current returns the token that a pod waits, holds or releases with.
func (w *world) current(pod int) Token {
	switch p := &w.Pods[pod]; p.Phase {
	case Waiting, Holding, Releasing:
		return tokenOf(pod, p.Turn)
	}
	return 0
}

// waits reports whether a token's pod waits with it.
func (w *world) waits(t Token) bool {
	return w.Pods[t.pod()].Phase == Waiting && w.current(t.pod()) == t
}

// nextTicket returns one behind everybody who waits.
func (w *world) nextTicket() Ticket {
	last := Ticket(0)
	w.tickets(func(t *Ticket) { last = max(last, *t) })
	return last + 1
}

// nextFence returns max(stored + 1, server time): rule 14. The time is above
// every fence given out before, also where the stored one was lost.
func (w *world) nextFence() Fence {
	r := &w.Redis
	switch {
	case !w.keeps(FenceByClock), !w.keeps(FencesInBlocks):
		return r.Fence + 1
	case !w.keeps(FenceByCounter) && r.SameTick:
		return r.Fence // the clock has not moved on
	}
	last := Fence(0)
	w.fences(func(f *Fence) { last = max(last, *f) })
	return last + 1
}

// block returns how many fences a lease is given: one for each holder that it
// can have.
func (w *world) block() Fence {
	if !w.keeps(FencesInBlocks) {
		return 1
	}
	return 1 + Fence(w.cfg.Passes)
}

// tick lets time pass.
func (w *world) tick() {
	r := &w.Redis
	r.SameTick = false
	r.Guard = max(r.Guard, 1) - 1
	if r.Owner != 0 {
		r.Age++
	}
	for i := range r.Queue {
		if e := &r.Queue[i]; e.Token != 0 {
			e.Age = min(e.Age+1, life)
		}
	}
	for i := range w.Commands {
		if c := &w.Commands[i]; c.Awaited {
			c.Age = min(c.Age+1, w.bound(c.Token.pod()))
		}
	}
	for i := range w.Answers {
		if a := &w.Answers[i]; a.Token != 0 {
			a.Age = min(a.Age+1, w.bound(a.Token.pod()))
		}
	}
	for pod := range w.cfg.Pods {
		p := &w.Pods[pod]
		switch {
		case p.Phase == Waiting:
			p.Since = min(p.Since+1, w.bound(pod))
		case p.Phase == Holding && w.keeps(OwnClock):
			p.Bound--
			if p.Bound == 0 {
				w.end(pod) // its leave may be late
			}
		}
	}
}
