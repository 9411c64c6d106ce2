package join

import (
	"context"
	"errors"
	"net/http"

	"github.com/reqlock/reqlock/internal/transcript"
	"github.com/reqlock/reqlock/middleware"
)

// follow writes to w the response that another writes.
func (v *viewer) follow(w http.ResponseWriter) error {
	head, err := v.reader.Head(v.ctx)
	switch {
	case errors.Is(err, transcript.ErrBehind): // nothing of it was sent
		return middleware.ErrNotShared
	case v.ctx.Err() != nil:
		return context.Cause(v.ctx)
	case err != nil:
		return err
	}
	head.Header.Apply(w.Header())
	w.WriteHeader(head.Status)
	if err := transcript.Send(v.ctx, w, v.reader); err != nil {
		return middleware.ErrBrokenOff
	}
	return nil
}
