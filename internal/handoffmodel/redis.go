package handoffmodel

// acquire is the script that a waiter runs first, and again as time passes. It
// executes at any time after it was sent, perhaps when nobody waits any more.
func (w *world) acquire(t Token, inbox bool) Answer {
	r := &w.Redis
	if r.Owner == t {
		return w.own(t)
	}
	if r.Dead.has(t) { // rule 3
		w.dequeue(t)
		if !w.guarded(t) {
			w.grantIfFree()
		}
		return Answer{Token: t, Reply: GivenUp}
	}
	w.enter(t, inbox)
	if r.Owner == 0 && !w.guarded(t) {
		w.grant(t)
	}
	if r.Owner == t {
		w.dequeue(t)
		return Answer{Token: t, Reply: Owned, Fence: w.first()}
	}
	if !inbox && !w.keeps(PlaceBeforeInbox) {
		w.dequeue(t)
	}
	return w.notYet(t, inbox)
}

// own is the answer to a token that finds itself the owner.
func (w *world) own(t Token) Answer {
	r := &w.Redis
	if w.keeps(OwnedRearms) { // rule 6
		r.Age, r.TTL = 0, w.ttl(t)
	}
	return Answer{Token: t, Reply: Owned, Fence: w.first()}
}

// notYet is the answer to a token that is queued. It says how high fences are:
// rule 2. The next one will be higher, and everyone before was not, also before
// a restart.
func (w *world) notYet(t Token, inbox bool) Answer {
	a := Answer{Token: t, Reply: Queued, Fence: w.nextFence() - 1}
	if !w.keeps(FloorByClock) {
		a.Fence = w.Redis.Fence
	}
	if !inbox {
		a.Reply = Subscribe // rule 10
	}
	return a
}

// leave is the script for release and cancel alike. Its acknowledgement is one
// step with it: a leave that is repeated finds nothing to do.
func (w *world) leave(t Token) {
	mayGrant := w.mayGrant(t)
	w.remove(t)
	if mayGrant && w.keeps(LeaveGrants) { // rule 8
		w.grantIfFree()
	}
	w.Leaves.remove(t)
}

// leaveTo is the same script where the leave names who is next in line: he is
// entered and answered, as if he had asked (rule 12). It may execute for the
// second time, and when he is long gone.
func (w *world) leaveTo(t, next Token, inbox bool) Answer {
	r := &w.Redis
	mayGrant := w.mayGrant(t)
	w.remove(t)
	if r.Owner == next && w.keeps(SecondFindsNext) {
		if !w.keeps(SecondRearms) {
			return Answer{Token: next, Reply: Owned, Fence: w.first()}
		}
		return w.own(next)
	}
	if r.Dead.has(next) && w.keeps(TombstoneOfNext) {
		if mayGrant {
			w.grantIfFree()
		}
		return Answer{Token: next, Reply: GivenUp}
	}
	w.enter(next, inbox)
	if r.Owner == 0 && mayGrant {
		if !w.keeps(NextInOrder) {
			w.dequeue(next)
			w.give(next)
		} else {
			w.grant(next)
		}
		if r.Owner == next {
			return Answer{Token: next, Reply: Owned, Fence: w.first()}
		}
	}
	return w.notYet(next, inbox)
}

// mayGrant reports whether the leave of a token may give the key on: only where
// it frees it. A key that is free already may be one of which Redis has forgotten
// who holds it (rule 9); who asks is told.
func (w *world) mayGrant(t Token) bool {
	return w.Redis.Owner == t || !w.keeps(LeaveGrantsOwn)
}

// remove takes a token out of Redis: its lock, or else its entry, since an owner
// has none.
func (w *world) remove(t Token) {
	if w.Doubts.has(t) && w.keeps(Tombstone) { // rule 3
		w.Redis.Dead.add(t)
	}
	if w.Redis.Owner == t {
		w.free()
		return
	}
	if w.keeps(LeaveDequeues) {
		w.dequeue(t)
	}
	if !w.keeps(LeaveCompares) {
		w.free()
	}
}

// extend is the script that re-arms the TTL of a token's lock.
func (w *world) extend(t Token) Answer {
	r := &w.Redis
	if r.Owner == t {
		r.Age, r.TTL = 0, w.ttl(t)
		return Answer{Token: t, Reply: Extended}
	}
	return Answer{Token: t, Reply: NotYours}
}

// enter puts a token into the queue, or refreshes its entry there. The ticket
// stays (rule 13).
func (w *world) enter(t Token, inbox bool) {
	q := &w.Redis.Queue
	n := 0
	for ; q[n].Token != 0; n++ {
		if q[n].Token == t {
			if w.keeps(AskRefreshes) { // rule 11
				q[n].Age = 0
			}
			q[n].Inbox = inbox
			return
		}
	}
	e := Entry{Token: t, Ticket: w.ticket(t), Inbox: inbox}
	if e.Ticket == 0 || !w.keeps(TicketByAge) {
		e.Ticket = w.nextTicket()
	}
	for ; n > 0 && q[n-1].Ticket > e.Ticket; n-- {
		q[n] = q[n-1]
	}
	q[n] = e
}

// believed reports whether a token's entry counts without an inbox: rule 10.
func (w *world) believed(t Token) bool {
	for _, e := range w.Redis.Queue {
		if e.Token == t {
			return !e.Inbox
		}
	}
	return false
}

func (w *world) dequeue(t Token) {
	q := &w.Redis.Queue
	for i := range q {
		if q[i].Token == t {
			take(q[:], i)
			return
		}
	}
}

func (w *world) grantIfFree() {
	if w.Redis.Owner == 0 {
		w.grant(0)
	}
}

// grant gives the free key to the oldest waiter that lives (rule 8): its entry
// was refreshed in time and Redis counts its inbox, if it has one (rules 1 and
// 10). The asker, if there is one, lives in any case, and needs no message.
func (w *world) grant(asker Token) {
	r := &w.Redis
	switch {
	case asker != 0 && !w.keeps(NoBarging):
		w.give(asker)
		return
	case asker != 0 && !w.keeps(AskGrants) && r.Queue[1].Token != 0:
		return
	}
	for r.Queue[0].Token != 0 {
		e := take(r.Queue[:], 0)
		switch {
		case e.Token == asker:
			w.give(asker)
			return
		case e.Age >= life:
		case !e.Inbox:
			w.give(e.Token)
			return
		case w.inbox(e.Token) != Closed || !w.keeps(SkipUncounted):
			w.give(e.Token)
			w.publish(Grant{Token: e.Token, Fence: w.first()})
			return
		case !w.keeps(CountFirst) && w.Pods[e.Token.pod()].Phase != Crashed:
			// Heard elsewhere, and counted by nobody.
			put(w.Grants[:], Grant{Token: e.Token, Fence: w.nextFence()})
		}
	}
}

// guarded reports whether an asker is not to find a free key, since Redis may
// have forgotten who holds it: rule 9.
func (w *world) guarded(asker Token) bool {
	left := w.Redis.Guard
	switch {
	case !w.keeps(Guard):
		return false
	case !w.keeps(GuardForLongest):
		return left+w.ttl(asker) > w.cfg.longestTTL()
	}
	return left > 0
}

// give makes a token the owner, with fences of its own.
func (w *world) give(t Token) {
	w.checkOrder(t)
	r := &w.Redis
	r.Fence = w.nextFence() + w.block() - 1
	r.SameTick = !w.keeps(FenceByCounter)
	r.Owner, r.Age, r.TTL = t, 0, w.ttl(t) // rule 6
	if w.freed != 0 && !w.keeps(TTLOfWaiter) {
		r.TTL = w.freed
	}
}

// first returns the first fence of the owner's block.
func (w *world) first() Fence { return w.Redis.Fence + 1 - w.block() }

// publish sends a grant. It arrives late, or never.
func (w *world) publish(g Grant) {
	if w.inbox(g.Token) == Open {
		put(w.Grants[:], g)
	}
}

// free deletes the lock, or lets it expire.
func (w *world) free() {
	r := &w.Redis
	w.freed = r.TTL
	r.Owner, r.Age, r.TTL = 0, 0, 0
}

// restart loses all data and all connections. What has not executed never will,
// and every pod sees its inbox close; what was published can still arrive.
func (w *world) restart() {
	w.Redis = Redis{}
	w.Redis.Guard = w.cfg.longestTTL()
	for pod := range w.cfg.Pods {
		w.loseInbox(pod, Closed)
	}
	for i := range w.Commands {
		w.giveUp(i)
	}
	clear(w.Commands[:])
}
