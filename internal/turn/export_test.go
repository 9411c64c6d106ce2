package turn

// Keys counts the keys that anything is kept for.
func (q *Queue[T]) Keys() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.heads)
}
