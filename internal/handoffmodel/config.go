package handoffmodel

// Config is what is explored.
type Config struct {
	Pods   []PodConfig // at most 3
	Drift  Ticks       // for which a lock can outlive its TTL, by a pod's clock
	Faults Faults      // at most so many of each

	// Passes is how often a lease can go on to who is next in line, without Redis;
	// at most 1.
	Passes uint8

	// Unsubscribed has pods open their inboxes only once they wait. Otherwise
	// they are open from the start.
	Unsubscribed bool

	// Slow has answers and extensions take their time. That adds nothing as
	// long as bounds count from the question, for an answer that comes late then
	// does what it would have done early, and one that is given up is like one
	// that never came. So it is for checking just that.
	Slow bool

	// Still stops the clock. No lease runs out and nobody asks again for the
	// sake of time: the hand-off alone must serve everyone. A crash is then that
	// of a waiter in the queue, and a cut one that is seen: the rest needs time
	// to heal. Restarts and lost messages do too, so there are to be none.
	Still bool

	// Without is the rule that is taken away.
	Without Rule
}

func (c *Config) longestTTL() (longest Ticks) {
	for _, p := range c.Pods {
		longest = max(longest, p.TTL)
	}
	return longest
}

// PodConfig is a pod's TTL, at least life, how many turns it wants, at most 3,
// and how many of them may be in line behind the current one, at most 2.
type PodConfig struct {
	TTL   Ticks
	Turns uint8
	Line  uint8
}

// life is that of an entry in the queue that is not refreshed.
const life Ticks = 2
