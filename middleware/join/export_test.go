package join

// Viewers returns how many requests wait for, or get, a response that may be joined: so a
// test knows that those it has sent are there.
func (s *Sharer) Viewers() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		n += r.viewers
	}
	return n
}
