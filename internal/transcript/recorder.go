package transcript

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
)

// ErrHijacked is why a response is not for others whose handler takes the connection over.
var ErrHijacked = errors.New("transcript: the connection was hijacked")

// A Recording says what a [Recorder] is to do.
type Recording struct {
	Transcript *Transcript
	Reader     *Reader         // reads Transcript for w
	Client     context.Context // ends when nothing more is to be sent to w
	Unsent     func(error)     // is called when w takes no more; ends Client
	Run        context.Context // the handler's: once both have ended, writing fails

	// Accept decides, when the head is committed, whether others may read the response.
	// header is all of it, what the handler has found included.
	Accept func(h Head, header http.Header) error

	// Refused is called with what Accept has returned, or with ErrHijacked. It is to end
	// the transcript. The response then goes to w alone.
	Refused func(error)
}

// A Recorder has what a handler writes go into a [Transcript], and from there to the
// handler's own client as to others: in a goroutine, which Finish waits for, or in Finish
// where it is little and was not flushed.
//
// The handler has a header of its own, which begins as w's. What it makes of it is in w
// when the response is committed. From then on w is not to be used until Finish has
// returned.
type Recorder struct{ response *response }

// NewRecorder returns a Recorder, and the ResponseWriter for the handler, which offers the
// optional interfaces that w does, and no others.
func NewRecorder(w http.ResponseWriter, r Recording) (*Recorder, http.ResponseWriter) {
	rec := &response{
		Recording: r, w: w, before: w.Header().Clone(), header: w.Header().Clone(),
		sender: &sender{w: w, reader: r.Reader, ctx: r.Client, unsent: r.Unsent},
	}
	if rec.header == nil {
		rec.header = make(http.Header)
	}
	return &Recorder{rec}, offer(rec, w)
}

// Finish ends the transcript when the handler has returned: cause is nil, or why the
// response is not whole. It returns once w has taken all of it, or why it has not; w then
// takes no more, so that nobody further out ends it as if it were whole.
//
// Where w has panicked, Finish does.
func (r *Recorder) Finish(cause error) error {
	err := r.finish(cause)
	if err != nil && r.response.status != 0 {
		seal(http.NewResponseController(r.response.w))
	}
	return err
}

func (r *Recorder) finish(cause error) error {
	r.response.end(cause)
	err := r.response.sender.wait()
	switch {
	case r.response.taken: // the connection is the handler's
		return nil
	case r.response.status == 0: // nothing was begun
		return err
	case r.response.direct: // what w has not taken the handler knows
		return cause
	default:
		return cmp.Or(err, r.response.lost, cause)
	}
}

// A sender sends a transcript to the client of the handler that writes it.
type sender struct {
	w      http.ResponseWriter
	reader *Reader
	ctx    context.Context
	unsent func(error)

	body     bool          // there is one
	done     chan struct{} // closed when it has ended; nil: it has not begun
	err      error
	panicked any
}

// patient is how much net/http itself keeps back until it is flushed: for less, and before
// that, there need not be a goroutine.
const patient = 2 << 10

// has is told of a body of so many bytes, before they are written.
func (s *sender) has(size int) {
	s.body = true
	if size > patient {
		s.start()
	}
}

func (s *sender) start() {
	if s.done == nil {
		s.done = make(chan struct{})
		go s.run()
	}
}

func (s *sender) run() {
	defer close(s.done)
	defer s.reader.Close()
	defer func() { s.panicked = recover() }()
	if s.err = Send(s.ctx, s.w, s.reader); s.err != nil {
		s.unsent(s.err)
	}
}

// wait waits until w may be used again.
func (s *sender) wait() error {
	switch {
	case s.done != nil:
		<-s.done
	case s.body:
		s.done = make(chan struct{})
		s.run()
	default:
		s.reader.Close()
		maps.Copy(s.w.Header(), s.reader.Trailer())
	}
	if s.panicked != nil {
		panic(s.panicked)
	}
	return s.err
}
