package join

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/reqlock/reqlock/internal/transcript"
	"github.com/reqlock/reqlock/middleware"
)

// lead has the handler's response written to w, and to whoever joins.
func (v *viewer) lead(w http.ResponseWriter, r *http.Request, lead func(http.ResponseWriter, *http.Request, middleware.Run) error) (err error) {
	run, ctx := v.run, r.Context()
	defer v.leaveWithContext()()
	defer context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); clientLeft(cause) {
			v.leave(cause)
		} else {
			run.stop(cause)
		}
	})()
	recorder, record := transcript.NewRecorder(w, transcript.Recording{
		Transcript: run.transcript,
		Reader:     v.reader,
		Client:     v.ctx,
		Unsent:     v.cancel,
		Run:        run.context,
		Accept:     run.of.accept,
		Refused:    func(error) { run.end(middleware.ErrNotShared) },
	})
	cause := middleware.ErrRunFailed // unless lead returns
	defer func() {
		run.close()
		if unsent := recorder.Finish(cause); unsent != nil && cause == nil {
			err = fmt.Errorf("%w: %w", middleware.ErrBrokenOff, unsent)
		}
	}()
	err = lead(record, r.WithContext(run.context), run)
	run.cut.Store(run.context.Err() != nil)
	cause = err
	return err
}

// clientLeft tells that from a deadline of a middleware, and from a server that ends its
// requests: net/http gives no cause.
func clientLeft(cause error) bool { return cause == context.Canceled }

// accept decides what is for others.
func (s *Sharer) accept(h transcript.Head, header http.Header) error {
	vary, cache := transcript.Values(header, "Vary"), transcript.Values(header, "Cache-Control")
	switch {
	case len(h.Header.Values("Set-Cookie")) > 0, has(vary, "*"), has(vary, "User-Agent"):
		return middleware.ErrNotShared
	case !s.private && (has(cache, "private") || has(cache, "no-store")):
		return middleware.ErrNotShared
	default:
		return nil
	}
}

// has says whether lines of a header have an element, whatever its case and its
// arguments.
func has(lines []string, element string) bool {
	for _, line := range lines {
		for e := range strings.SplitSeq(line, ",") {
			e, _, _ = strings.Cut(e, "=")
			if strings.EqualFold(strings.TrimSpace(e), element) {
				return true
			}
		}
	}
	return false
}
