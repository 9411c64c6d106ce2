package memlock

import (
	"context"

	"github.com/reqlock/reqlock/internal/turn"
	"github.com/reqlock/reqlock/middleware/lock"
)

type lease struct {
	ctx    context.Context
	cancel context.CancelCauseFunc

	// Set once the turn has come; only the holder reads them.
	turn  *turn.Turn[*lease]
	key   string
	fence uint64
}

func (s *lease) Key() string              { return s.key }
func (s *lease) Fence() uint64            { return s.fence }
func (s *lease) Context() context.Context { return s.ctx }

// Release ends the context before the key can be somebody else's. Both steps
// do nothing the second time, and whoever returns from here finds both done.
func (s *lease) Release(context.Context) error {
	s.cancel(lock.ErrReleased)
	s.turn.Pass()
	return nil
}
