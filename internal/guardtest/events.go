package guardtest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

// Events remembers what it is told. The zero value is ready; all methods may
// be called concurrently.
type Events struct {
	mu  sync.Mutex
	all []lock.Event
}

// Observe is the [lock.Observer].
func (e *Events) Observe(_ context.Context, event lock.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

// All returns what was told so far.
func (e *Events) All() []lock.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// Of returns those of type E.
func Of[E lock.Event](e *Events) []E {
	var found []E
	for _, event := range e.All() {
		if event, ok := event.(E); ok {
			found = append(found, event)
		}
	}
	return found
}

// Await waits until an event of type E was told, and returns the newest.
func Await[E lock.Event](t testing.TB, e *Events) E {
	t.Helper()
	require.Eventually(t, func() bool { return len(Of[E](e)) > 0 }, 10*time.Second, time.Millisecond)
	found := Of[E](e)
	return found[len(found)-1]
}
