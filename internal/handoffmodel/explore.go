package handoffmodel

// Result is what an exploration has found.
type Result struct {
	States, Steps int
	Violation     *Violation // nil: every property holds
}

// Violation is a property that does not hold, and a shortest way to where it
// does not.
type Violation struct {
	Property Property
	Trace    []Step
	// Rest is all that comes after Trace when nothing fails any more. It is how
	// NotServed shows: it stops short, or goes on in a circle.
	Rest []Step
}

// Explore visits every State that can be reached, nearest first and in an order
// that is always the same, until a property does not hold.
func Explore(cfg Config) Result {
	e := &explorer{cfg: &cfg, numbers: map[State]int32{}}
	e.add(start(e.cfg).State, origin{})
	for number := int32(0); len(e.found) > 0 && e.violation == nil; {
		level := e.found
		e.found = nil
		for i := range level {
			e.expand(&world{cfg: e.cfg, State: level[i]}, number)
			number++
		}
	}
	if e.violation == nil {
		e.checkServed()
	}
	return Result{States: len(e.origins), Steps: e.taken, Violation: e.violation}
}

// explorer numbers States in the order in which it finds them.
type explorer struct {
	cfg     *Config
	numbers map[State]int32
	origins []origin // by number: how it was found
	heirs   []int32  // by number: what comes next when nothing fails any more
	found   []State  // and not expanded

	taken     int // steps
	violation *Violation
}

// origin is a State, and which of the steps that are possible there.
type origin struct {
	number int32
	choice int32
}

// Instead of an heir.
const (
	served int32 = -1 // nothing is left to be done
	stuck  int32 = -2 // nothing can be counted on to come
)

// add returns the number of a State, and whether it is new.
func (e *explorer) add(s State, from origin) (number int32, isNew bool) {
	if number, ok := e.numbers[s]; ok {
		return number, false
	}
	number = int32(len(e.origins))
	e.numbers[s] = number
	e.origins = append(e.origins, from)
	e.found = append(e.found, s)
	return number, true
}

// expand takes every step that is possible in a State.
func (e *explorer) expand(w *world, number int32) {
	heir, by, choice := stuck, toBeCountedOn+1, int32(0)
	w.steps(func(s Step, n *world) {
		to, isNew := e.add(n.State, origin{number, choice})
		if (isNew || n.harm != "") && e.violation == nil {
			if p := n.broken(); p != "" {
				e.violation = &Violation{Property: p, Trace: append(e.trace(number), s)}
			}
		}
		if s.Kind < by {
			heir, by = to, s.Kind
		}
		choice++
	})
	if w.served() {
		heir = served
	}
	e.heirs = append(e.heirs, heir)
	e.taken += int(choice)
}

// checkServed checks that the heirs of every State lead to where everybody has
// been served. Each is followed only until it meets those of another State.
func (e *explorer) checkServed() {
	type mark uint8
	const (
		passed mark = iota + 1 // on the way that is being followed
		good
	)
	marks := make([]mark, len(e.heirs))
	for first := range int32(len(e.heirs)) {
		at := first
		for at >= 0 && marks[at] == 0 {
			marks[at] = passed
			at = e.heirs[at]
		}
		if at == stuck || at >= 0 && marks[at] == passed {
			e.violation = &Violation{Property: NotServed, Trace: e.trace(first), Rest: e.rest(first)}
			return
		}
		for at = first; at >= 0 && marks[at] == passed; at = e.heirs[at] {
			marks[at] = good
		}
	}
}
