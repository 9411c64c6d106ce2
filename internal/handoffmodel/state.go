package handoffmodel

// The sizes of a State: as small as the configurations in the tests allow,
// since millions of States are kept.
const (
	maxPods     = 3
	maxTurns    = 3
	maxLine     = 2
	maxQueue    = 5
	maxCommands = 5
	maxAnswers  = 3
	maxGrants   = 3
)

// State is everything there is at one moment: what Redis stores for one key of
// a user, the pods, and what is under way between them. It is a value that can
// be compared, so that a map tells whether it was seen before. Its lists are
// arrays filled from the front; an element without a token ends them.
type State struct {
	Redis Redis
	Pods  [maxPods]Pod

	Commands [maxCommands]Command // sent, not executed; leaves are in Leaves
	Answers  [maxAnswers]Answer   // not arrived; empty unless Config.Slow
	Grants   [maxGrants]Grant     // published, not arrived

	Leaves Tokens // named in a leave that is not acknowledged
	Doubts Tokens // with a command that may enter them, of unknown outcome to their pod

	Newest Fence  // that a holder has started with
	Faults Faults // that can still happen
}

// Redis is what the server stores for the key.
type Redis struct {
	Owner Token // the lock's value; 0: the key is free
	Age   Ticks // since the lock's TTL was armed
	TTL   Ticks // as it was armed then

	Fence Fence // the last one of the block that was given out last
	Queue [maxQueue]Entry
	Dead  Tokens // the tombstones

	Guard    Ticks // for which nothing is granted any more, after an empty restart
	SameTick bool  // a fence was given out since the last tick; see FenceByCounter
}

// Entry is a waiter's place in the queue, which is sorted by ticket.
type Entry struct {
	Token  Token
	Ticket Ticket
	Age    Ticks // since it was refreshed
	Inbox  bool  // a grant is published; otherwise the waiter asks
}

// Pod is a process. It wants the lock for a number of turns, one after the
// other, each with a token of its own. Who comes while it is another's turn
// waits in line, of which Redis knows nothing.
type Pod struct {
	Phase Phase
	Turn  uint8 // the current one, or the last
	Come  uint8 // how many have come, those in line among them
	Line  [maxLine]Caller
	Inbox Inbox

	// While it waits.
	Ticket     Ticket // its age, as a place among all waiters
	Since      Ticks  // since s: when it sent the question that Floor is the answer to
	Floor      Fence  // F: the highest fence when it was last answered "not yet"
	Unanswered bool   // it was not yet
	Queued     bool   // it was, with a place in the queue that it has not lost by a cut
	AskNow     bool   // it is to ask again as soon as its inbox is open

	// While it holds.
	Bound  Ticks // for which it can count on its lease
	Passed uint8 // how often that went on to who was next in line

	// While it releases; AskNow is for whom it names.
	Next    uint8 // the turn that its leave names
	Retried bool  // the leave is the second one
}

// Caller is one in line.
type Caller struct {
	Turn   uint8
	Ticket Ticket
}

// Phase is what a pod is doing.
type Phase uint8

const (
	Idle Phase = iota
	Waiting
	Holding
	Releasing // and has somebody in line
	Crashed
)

// Inbox is the state of a pod's subscription.
type Inbox uint8

const (
	Closed   Inbox = iota
	Open           // Redis counts it, and messages arrive
	HalfOpen       // Redis counts it, and messages vanish
)

// Command is an acquire, an extend, or a leave that names who is next.
type Command struct {
	Token   Token
	Extend  bool
	Next    Token // whom a leave names, otherwise 0
	Inbox   bool  // the inbox was open when it was sent, as far as its pod knew
	Awaited bool  // by its caller; otherwise it can still execute, at any time
	Age     Ticks // since it was sent, while it is awaited
}

// Answer is what Redis has answered to a Command.
type Answer struct {
	Token Token // of a leave, whom it names
	Left  Token // of a leave, its token, otherwise 0
	Reply Reply
	Fence Fence // of the owner where it is the token, else the highest so far
	Age   Ticks // since the Command was sent
}

// Reply is the kind of an Answer.
type Reply uint8

const (
	Owned     Reply = iota + 1 // the token is the owner
	Queued                     // not yet
	Subscribe                  // not yet: queued, but a grant will not be published
	GivenUp                    // the token has a tombstone
	Extended                   // the token is the owner, for another TTL
	NotYours                   // not extended
)

// Grant is the message that tells a waiter of its lease.
type Grant struct {
	Token Token
	Fence Fence
}

// Faults counts what can go wrong, beyond delay.
type Faults struct {
	Cancels  uint8 // a waiter gives up
	Crashes  uint8 // a pod dies
	Answers  uint8 // a caller gives up on the answer to an acquire or to a leave
	Grants   uint8 // the message of a grant is lost
	Cuts     uint8 // an inbox is cut off, whether or not its pod sees it
	Restarts uint8 // Redis starts again without its data
}

// Ticks measure time.
type Ticks uint8

// Fence numbers leases. Only the order of fences matters: they are renumbered
// all the time. 0: none.
type Fence uint8

// Ticket numbers waiters in the order in which they began to wait. 0: none.
type Ticket uint8

// Token names one turn of one pod. 0: none.
type Token uint8

func tokenOf(pod int, turn uint8) Token { return Token(pod*maxTurns + int(turn)) }

func (t Token) pod() int    { return int(t-1) / maxTurns }
func (t Token) turn() uint8 { return uint8(int(t-1)%maxTurns + 1) }

// Tokens is a set of them.
type Tokens uint16

func tokensOf(pod int) Tokens { return (1<<maxTurns - 1) << (pod * maxTurns) }

func (ts Tokens) has(t Token) bool { return ts&t.set() != 0 }
func (ts *Tokens) add(t Token)     { *ts |= t.set() }
func (ts *Tokens) remove(t Token)  { *ts &^= t.set() }

// set returns the set of a token alone; that of none is empty.
func (t Token) set() Tokens { return 1 << t >> 1 }

// put appends to a list, which must have room.
func put[E comparable](list []E, e E) {
	var end E
	for i := range list {
		if list[i] == end {
			list[i] = e
			return
		}
	}
	panic("handoffmodel: a list in State is too short for this Config")
}

// take removes an element from a list and returns it.
func take[E any](list []E, i int) E {
	var end E
	e := list[i]
	copy(list[i:], list[i+1:])
	list[len(list)-1] = end
	return e
}

// drop removes the elements of a list that what says.
func drop[E any](list []E, what func(E) bool) {
	for i := len(list) - 1; i >= 0; i-- {
		if what(list[i]) {
			take(list, i)
		}
	}
}
