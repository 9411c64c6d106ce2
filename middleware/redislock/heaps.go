package redislock

// dueHeap has the lease that is due next at the front.
type dueHeap []*lease

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}
func (h *dueHeap) Push(x any) {
	s := x.(*lease)
	*h = append(*h, s)
	s.index = len(*h)
}
func (h *dueHeap) Pop() any {
	s := pop((*[]*lease)(h))
	s.index = 0
	return s
}

// untilHeap has the lease that runs out next at the front.
type untilHeap []*lease

func (h untilHeap) Len() int           { return len(h) }
func (h untilHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h untilHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *untilHeap) Push(x any)        { *h = append(*h, x.(*lease)) }
func (h *untilHeap) Pop() any          { return pop((*[]*lease)(h)) }

func pop(h *[]*lease) *lease {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
