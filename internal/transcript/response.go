package transcript

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
)

// response is a handler's ResponseWriter, with all optional interfaces that there are: see
// offer. Like others it is for one goroutine at a time.
type response struct {
	Recording
	w      http.ResponseWriter
	before http.Header // w's, as the handler has found it
	header http.Header // the handler's
	status int         // 0: not committed
	size   int         // of the body so far
	direct bool        // it is not for the transcript
	length int         // as declared; -1: not
	taken  bool        // the connection, by the handler
	lost   error       // why something that was written is not in the transcript
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
		before := r.w.Header().Clone()
		r.applyHeader()
		r.w.WriteHeader(status)
		clear(r.w.Header()) // the final response may have others
		maps.Copy(r.w.Header(), before)
	default:
		r.commit(status)
	}
}

func (r *response) begin() {
	if r.status == 0 && !r.taken {
		r.commit(http.StatusOK)
	}
}

func (r *response) commit(status int) {
	r.applyHeader()
	r.w.WriteHeader(status) // panics where it is none
	r.status = status
	r.length = declared(r.header)
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
		switch {
		case cause != nil:
		case r.Run.Err() != nil: // who stopped the handler may answer its client
			r.goDirect(context.Cause(r.Run))
		default:
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
	if r.Client.Err() != nil && r.Run.Err() != nil {
		return context.Cause(r.Run)
	}
	return nil
}

func (r *response) Write(p []byte) (int, error) {
	return write(r, p, r.w.Write, r.Transcript.Write)
}

func (r *response) WriteString(s string) (int, error) {
	direct := func(s string) (int, error) { return io.WriteString(r.w, s) }
	return write(r, s, direct, r.Transcript.WriteString)
}

func write[T []byte | string](r *response, p T, direct, record func(T) (int, error)) (n int, err error) {
	r.begin()
	switch {
	case r.direct:
		n, err = direct(p)
		r.size += n
		return n, err
	case len(p) == 0:
		return 0, nil
	case r.status == http.StatusNoContent, r.status == http.StatusNotModified:
		return 0, http.ErrBodyNotAllowed
	}
	if err := r.over(); err != nil {
		r.lost = err
		return 0, err
	}
	// The client's writer says so too late: to a piece of several writes.
	if r.size += len(p); r.length >= 0 && r.size > r.length {
		return 0, http.ErrContentLength
	}
	r.sender.has(r.size)
	return record(p)
}

// declared returns the Content-Length, or -1.
func declared(h http.Header) int {
	n, err := strconv.Atoi(h.Get("Content-Length"))
	if err != nil || n < 0 {
		return -1
	}
	return n
}

func (r *response) ReadFrom(src io.Reader) (n int64, err error) {
	if r.direct && r.status != 0 {
		n, err = r.w.(io.ReaderFrom).ReadFrom(src)
		r.size += int(n)
		return n, err
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
	conn, rw, err := http.NewResponseController(r.w).Hijack()
	r.taken = r.taken || err == nil
	return conn, rw, err
}

func (r *response) Push(target string, opts *http.PushOptions) error {
	return r.w.(http.Pusher).Push(target, opts)
}
