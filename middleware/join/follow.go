package join

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/reqlock/reqlock/internal/transcript"
	"github.com/reqlock/reqlock/middleware"
)

// follow writes to w the response that another writes.
func (v *viewer) follow(w http.ResponseWriter, c middleware.Call) error {
	defer v.leaveWithContext()()
	head, err := v.head(c)
	switch {
	case errors.Is(err, transcript.ErrBehind): // nothing of it was sent
		return middleware.ErrNotShared
	case err != nil:
		return err
	}
	c.Joined()
	head.Header.Apply(w.Header())
	w.WriteHeader(head.Status)
	err = transcript.Send(v.ctx, w, v.reader)
	if err == nil && v.run.cut.Load() { // that may be a part, and nobody has said so
		err = context.Cause(v.run.context)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", middleware.ErrBrokenOff, err)
	}
	return nil
}

// head waits for it, and for a handler that has not started no longer than it is to.
func (v *viewer) head(c middleware.Call) (*transcript.Head, error) {
	if !v.run.started.Load() {
		ctx, cancel := context.WithDeadlineCause(v.ctx, c.Until, middleware.ErrNotStarted)
		defer cancel()
		head, err := v.reader.Head(ctx)
		if !errors.Is(err, middleware.ErrNotStarted) || !v.run.started.Load() {
			return head, err
		}
	}
	return v.reader.Head(v.ctx)
}
