package handoffmodel

import (
	"fmt"
	"strings"
)

// trace returns the steps that lead to a State.
func (e *explorer) trace(number int32) []Step {
	steps, _ := e.replay(number)
	return steps
}

// replay goes the way to a State again.
func (e *explorer) replay(number int32) ([]Step, *world) {
	if number == 0 {
		return nil, start(e.cfg)
	}
	from := e.origins[number]
	steps, w := e.replay(from.number)
	step, w := w.pick(func(choice int32, _ Step, _ *world) bool { return choice == from.choice })
	return append(steps, step), w
}

// rest returns the steps from a State to its heir, to the heir's heir and so on,
// until they come back or stop.
func (e *explorer) rest(number int32) (steps []Step) {
	_, w := e.replay(number)
	for been := map[int32]bool{}; !been[number] && e.heirs[number] >= 0; number = e.heirs[number] {
		been[number] = true
		var step Step
		step, w = w.pick(func(_ int32, s Step, n *world) bool {
			return s.Kind <= toBeCountedOn && e.numbers[n.State] == e.heirs[number]
		})
		steps = append(steps, step)
	}
	return steps
}

// pick takes the first step that fits.
func (w *world) pick(fits func(choice int32, s Step, n *world) bool) (step Step, to *world) {
	choice := int32(0)
	w.steps(func(s Step, n *world) {
		if to == nil && fits(choice, s, n) {
			step, to = s, &world{cfg: w.cfg, State: n.State}
		}
		choice++
	})
	return step, to
}

// String tells the violation step by step.
func (v *Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, after %d steps:\n", v.Property, len(v.Trace))
	for i, s := range v.Trace {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, s)
	}
	if v.Property == NotServed {
		fmt.Fprintf(&b, "and this is all that follows when nothing fails:\n")
		for _, s := range v.Rest {
			fmt.Fprintf(&b, "   - %s\n", s)
		}
	}
	return b.String()
}

// String returns the step as a sentence. Pods are named by letters, and tokens
// by their pod and turn: B2 is pod B's second.
func (s Step) String() string {
	var text string
	switch t, pod := s.Token, podName(s.Pod); s.Kind {
	case Execute:
		text = fmt.Sprintf("Redis runs a command of %s: %s", t, s.Reply)
		if s.Next != 0 {
			text = fmt.Sprintf("Redis runs the leave of %s for %s: %s", t, s.Next, s.Reply)
		}
	case Hear:
		text = fmt.Sprintf("%s is answered: %s", t, s.Reply)
	case Receive:
		text = fmt.Sprintf("%s receives a grant", t)
	case Leave:
		text = fmt.Sprintf("Redis runs the leave of %s", t)
	case Release:
		text = fmt.Sprintf("%s releases", t)
	case Fail:
		text = fmt.Sprintf("%s leaves the rest to a leave that names nobody", t)
	case Join:
		text = fmt.Sprintf("%s comes and waits in line", t)
	case Pass:
		text = fmt.Sprintf("the lease of %s goes on to who is next in line", t)
	case Retry:
		text = fmt.Sprintf("%s leaves again", t)
	case Reopen:
		text = fmt.Sprintf("%s opens its inbox", pod)
	case Begin:
		text = fmt.Sprintf("%s begins to wait and asks", t)
	case Again, Early:
		text = fmt.Sprintf("%s asks again", t)
	case Notice:
		text = fmt.Sprintf("Redis sees that the connection of %s is dead", pod)
	case Tick:
		text = "time passes"
	case Expire:
		text = fmt.Sprintf("the lock of %s expires", t)
	case Renew:
		text = fmt.Sprintf("%s extends its lease", t)
	case Cancel:
		text = fmt.Sprintf("%s gives up waiting", t)
	case Crash:
		text = fmt.Sprintf("%s dies", pod)
	case GiveUp:
		text = fmt.Sprintf("%s gives up on an answer", t)
	case LoseGrant:
		text = fmt.Sprintf("a grant to %s is lost", t)
	case LoseLeave:
		text = fmt.Sprintf("the leave of %s is lost", t)
	case BeginAgain:
		text = fmt.Sprintf("%s asks again while its leave is under way", t)
	case Cut:
		text = fmt.Sprintf("the inbox of %s is cut off", pod)
	case Restart:
		text = "Redis restarts without its data"
	}
	if s.Owner != 0 && s.Reply != Owned {
		text += fmt.Sprintf("; the lock is granted to %s", s.Owner)
	}
	return text
}

func (t Token) String() string {
	return fmt.Sprintf("%s%d", podName(t.pod()), t.turn())
}

func podName(pod int) string { return string('A' + rune(pod)) }

func (r Reply) String() string {
	return [...]string{
		Owned:     "it is the owner",
		Queued:    "queued",
		Subscribe: "queued, subscribe",
		GivenUp:   "given up",
		Extended:  "extended",
		NotYours:  "not yours",
	}[r]
}
