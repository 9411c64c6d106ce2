package handoffmodel

// A Property is what holds whatever happens.
type Property string

// The properties, as what is the case where they don't hold.
const (
	// Safety.
	TwoLeases  Property = "two leases are valid at once"
	FenceFell  Property = "a fence does not rise"
	TokenStays Property = "Redis keeps a token whose pod is done with it"
	Overtaken  Property = "a waiter that was queued and listens is passed over"

	// Liveness.
	NotServed Property = "somebody is not served though nothing fails any more"

	// What safety rests on. Where a rule is taken away these are not checked,
	// since the exploration is to go on to the harm itself.
	LeaseElsewhere Property = "a valid lease is not the one in Redis"
	LeftHeld       Property = "a token is held that a leave has named"
	OwnerQueued    Property = "the owner has an entry in the queue"
	WaiterGivenUp  Property = "somebody is answered that he has given up, and has not"
)

// broken returns a property that does not hold, or "".
func (w *world) broken() Property {
	valid := 0
	for pod := range w.cfg.Pods {
		if w.holds(pod) {
			valid++
		}
	}
	switch {
	case valid > 1:
		return TwoLeases
	case w.harm != "":
		return w.harm
	case w.abandoned(w.Redis.Owner):
		return TokenStays
	}
	for _, e := range w.Redis.Queue {
		if w.abandoned(e.Token) {
			return TokenStays
		}
	}
	if w.cfg.Without != AllRules {
		return ""
	}
	for _, e := range w.Redis.Queue {
		if e.Token != 0 && e.Token == w.Redis.Owner {
			return OwnerQueued
		}
	}
	for pod := range w.cfg.Pods {
		switch t := w.current(pod); {
		case !w.holds(pod):
		case w.Leaves.has(t):
			return LeftHeld
		case w.Redis.Owner != t && w.Faults.Restarts == w.cfg.Faults.Restarts:
			return LeaseElsewhere
		}
	}
	return ""
}

// holds reports whether a pod has a valid lease.
func (w *world) holds(pod int) bool { return w.Pods[pod].Phase == Holding && w.Pods[pod].Bound > 0 }

// abandoned reports whether a token's pod lives, but has no use for the token
// and no leave to send. The tokens of a dead pod stay until they run out.
func (w *world) abandoned(t Token) bool {
	return t != 0 && w.Pods[t.pod()].Phase != Crashed && w.current(t.pod()) != t && !w.inLine(t) && !w.Leaves.has(t)
}

// checkStart checks the fence of a holder that starts.
func (w *world) checkStart(f Fence) {
	if f <= w.Newest {
		w.harm = FenceFell
	}
	w.Newest = f
}

// checkOrder checks, as a waiter becomes the owner, that nobody is passed over
// who has waited for longer, was told that he is queued, has asked again before
// his entry lapsed, and has been listening since or needs not.
func (w *world) checkOrder(t Token) {
	place := w.ticket(t) // 0: one that nobody needs any more
	for pod := range w.cfg.Pods {
		p := &w.Pods[pod]
		if p.Phase == Waiting && p.Queued && p.Since < life && p.Ticket < place {
			w.harm = Overtaken
		}
	}
}

// served reports whether nothing is left to be done: no pod waits, holds, leaves
// or wants another turn.
func (w *world) served() bool {
	for pod, c := range w.cfg.Pods {
		p := &w.Pods[pod]
		if w.current(pod) != 0 || p.Line[0].Turn != 0 || p.Phase == Idle && p.Come < c.Turns {
			return false
		}
	}
	return w.Leaves == 0
}
