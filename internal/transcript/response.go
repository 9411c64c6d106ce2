package transcript

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
)

// response is a handler's ResponseWriter, with all optional interfaces that there are: see
// offer. Like others it is for one goroutine at a time.
type response struct {
	Recording
	w      http.ResponseWriter
	before http.Header // w's, as the handler has found it
	header http.Header // the handler's
	status int         // 0: not committed
	direct bool        // it is not for the transcript
	sender *sender
}

func (r *response) Header() http.Header { return r.header }

func (r *response) WriteHeader(status int) {
	switch {
	case r.status != 0:
		return
	case status == http.StatusSwitchingProtocols:
		r.goDirect(ErrHijacked)
		r.commit(status)
	case status >= 100 && status <= 199: // others have no use for it
		r.applyHeader()
		r.w.WriteHeader(status)
	default:
		r.commit(status)
	}
}

func (r *response) begin() {
	if r.status == 0 {
		r.commit(http.StatusOK)
	}
}

func (r *response) commit(status int) {
	r.applyHeader()
	r.w.WriteHeader(status) // panics where it is none
	r.status = status
	r.record(status)
}

// record begins the transcript, or finds that the response is not for it.
func (r *response) record(status int) {
	if r.direct {
		return
	}
	head := Head{status, changes(r.before, r.header)}
	if err := r.Accept(head, r.header); err != nil {
		r.goDirect(err)
		return
	}
	r.Transcript.Commit(head)
}

func (r *response) goDirect(why error) {
	if !r.direct {
		r.direct = true
		r.Reader.Close()
		r.Refused(why)
	}
}

// applyHeader makes w's header what the handler has made of it so far.
func (r *response) applyHeader() {
	h := r.w.Header()
	c := changes(r.before, r.header)
	for name := range c.set {
		h[name] = r.header[name]
	}
	for name := range c.added {
		h[name] = r.header[name]
	}
	for _, name := range c.deleted {
		delete(h, name)
	}
}

// end is for a handler that has returned.
func (r *response) end(cause error) {
	silent := r.status == 0
	if silent {
		r.applyHeader() // who is further out may still write
		if cause == nil {
			r.record(http.StatusOK) // as net/http makes of it
		}
	}
	trailer := trailers(r.header["Trailer"], r.header)
	switch {
	case r.direct:
		maps.Copy(r.w.Header(), trailer)
	case cause != nil:
		r.Transcript.Break(cause)
	default:
		r.Transcript.Complete(trailer)
	}
}

// over says why nobody reads any more.
func (r *response) over() error {
	if r.Run.Err() != nil {
		return context.Cause(r.Run)
	}
	return nil
}

func (r *response) Write(p []byte) (int, error) {
	r.begin()
	if r.direct {
		return r.w.Write(p)
	}
	return write(r, p, r.Transcript.Write)
}

func (r *response) WriteString(s string) (int, error) {
	r.begin()
	if r.direct {
		return io.WriteString(r.w, s)
	}
	return write(r, s, r.Transcript.WriteString)
}

func write[T []byte | string](r *response, p T, to func(T) (int, error)) (int, error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case r.status == http.StatusNoContent, r.status == http.StatusNotModified:
		return 0, http.ErrBodyNotAllowed
	}
	if err := r.over(); err != nil {
		return 0, err
	}
	r.sender.start()
	return to(p)
}

func (r *response) ReadFrom(src io.Reader) (int64, error) {
	if r.direct && r.status != 0 {
		return r.w.(io.ReaderFrom).ReadFrom(src)
	}
	return io.Copy(struct{ io.Writer }{r}, src)
}

func (r *response) Flush() { _ = r.FlushError() }

func (r *response) FlushError() error {
	r.begin()
	if r.direct {
		return http.NewResponseController(r.w).Flush()
	}
	if err := r.over(); err != nil {
		return err
	}
	r.sender.start()
	r.Transcript.Flush()
	return nil
}

func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if !r.direct && r.status != 0 {
		r.Transcript.Break(ErrHijacked)
		_ = r.sender.wait() // the connection is to have all that was written
	}
	r.goDirect(ErrHijacked)
	return http.NewResponseController(r.w).Hijack()
}

func (r *response) Push(target string, opts *http.PushOptions) error {
	return r.w.(http.Pusher).Push(target, opts)
}
