package redislock

import "time"

// maxSilence is how long a process that waits goes without a reply of Redis
// before one of its callers asks out of turn: an outage is to end a wait,
// however long the TTL.
const maxSilence = 2250 * time.Millisecond

// silentAt returns when a caller that waits should ask out of turn.
func (h *health) silentAt() time.Time {
	replied, asked := h.replied.Load(), h.asked.Load()
	if asked > replied { // by now the answer should be there
		return h.start.Add(time.Duration(asked) + callTimeout)
	}
	return h.start.Add(time.Duration(replied) + maxSilence)
}

// claimSilence says whether the caller should. At first one question is enough
// for all; where that has no reply, each of them is to find out.
func (h *health) claimSilence(now time.Time) bool {
	if now.Before(h.silentAt()) {
		return false
	}
	replied, asked := h.replied.Load(), h.asked.Load()
	return asked > replied || h.asked.CompareAndSwap(asked, int64(now.Sub(h.start)))
}
