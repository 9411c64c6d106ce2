package transcript

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"time"
)

// Send writes the body and the trailer of a response to w, flushing where it was flushed.
// nil: w has taken all of it. A write that blocks is ended with ctx; nothing more can be
// written to w then.
func Send(ctx context.Context, w http.ResponseWriter, r *Reader) error {
	out := http.NewResponseController(w)
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		seal(out)
		close(cut)
	})
	defer func() {
		if !stop() {
			<-cut // w is not to be used any more
		}
	}()
	for {
		p, flush, err := r.Next(ctx)
		switch {
		case err == io.EOF:
			maps.Copy(w.Header(), r.Trailer())
			return nil
		case err != nil:
			return err
		}
		if len(p) > 0 {
			if _, err := w.Write(p); err != nil {
				return err
			}
		}
		if flush {
			if err := out.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
				return err
			}
		}
	}
}

// seal has nothing more written.
func seal(w *http.ResponseController) {
	_ = w.SetWriteDeadline(time.Unix(1, 0)) // not everything supports it
}
