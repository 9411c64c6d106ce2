package join

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/reqlock/reqlock/internal/transcript"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
)

// lead has the handler's response written to w, and to whoever joins.
func (v *viewer) lead(w http.ResponseWriter, r *http.Request, lead middleware.Lead) (err error) {
	run := v.run
	stop := context.AfterFunc(v.ctx, func() {
		if cause := context.Cause(v.ctx); ofLock(cause) {
			run.cancel(cause) // what the handler must not run without is gone
		}
		v.leave()
	})
	defer stop()
	recorder, record := transcript.NewRecorder(w, transcript.Recording{
		Transcript: run.transcript,
		Reader:     v.reader,
		Client:     v.ctx,
		Run:        run.context,
		Accept:     run.of.accept,
		Refused:    func(error) { run.end(middleware.ErrNotShared) },
	})
	cause := middleware.ErrRunFailed // unless lead returns
	defer func() {
		run.close()
		unsent := recorder.Finish(cause)
		switch {
		case unsent == nil:
		case cause == nil:
			err = middleware.ErrBrokenOff
		case cause == middleware.ErrRunFailed: // a recovery further out may end the response
			_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
		}
	}()
	err = lead(record, r.WithContext(run.context))
	cause = err
	return err
}

// ofLock says whether a context has ended for a lease that a guard further out holds.
func ofLock(cause error) bool {
	return errors.Is(cause, lock.ErrLost) || errors.Is(cause, lock.ErrInterrupted) ||
		errors.Is(cause, lock.ErrMaxHold) || errors.Is(cause, lock.ErrReleased)
}

// end has followers told why there is no response for them.
func (r *run) end(cause error) {
	r.close()
	r.transcript.Break(cause)
}

// accept decides what is for others.
func (s *Sharer) accept(h transcript.Head, header http.Header) error {
	switch {
	case h.Header.Has("Set-Cookie"), has(header["Vary"], "*"):
		return middleware.ErrNotShared
	case !s.private && (has(header["Cache-Control"], "private") || has(header["Cache-Control"], "no-store")):
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
