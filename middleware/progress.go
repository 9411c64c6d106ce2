package middleware

import "net/http"

// progress says how far a response has come. gin's ResponseWriter has these
// methods, as have those of other frameworks, and is asked itself.
type progress interface {
	// Written reports whether the response is on its way: its status can not
	// be changed any more, or its connection was hijacked. Informational
	// responses (1xx) do not count.
	Written() bool
	Size() int   // bytes of the body
	Status() int // certain once Written
}

// track returns what next is to write to, and what says how much it did write.
func track(w http.ResponseWriter) (http.ResponseWriter, progress) {
	if p, ok := w.(progress); ok {
		return w, p
	}
	return tracker(w)
}

// tracker is track for a writer that is not to be asked itself.
func tracker(w http.ResponseWriter) (http.ResponseWriter, progress) {
	if w, t := trackNetHTTP(w); w != nil {
		return w, t
	}
	if w, p := trackUnwrapping(w); w != nil {
		return w, p
	}
	return trackAny(w)
}

// A tally keeps count of a response for a writer that does not itself. Like
// the writer it is for one goroutine at a time.
type tally struct {
	status   int // 0: not written
	size     int
	hijacked bool
}

func (t *tally) Written() bool { return t.status != 0 || t.hijacked }
func (t *tally) Size() int     { return t.size }
func (t *tally) Status() int   { return t.status }

func (t *tally) header(status int) {
	informational := status >= 100 && status <= 199 && status != http.StatusSwitchingProtocols
	if t.status == 0 && !informational {
		t.status = status
	}
}

func (t *tally) body(n int) {
	t.header(http.StatusOK)
	t.size += n
}

// copied is for ReadFrom: a source that ends or fails at once leaves the
// response unwritten.
func (t *tally) copied(n int64) {
	if n > 0 {
		t.body(int(n))
	}
}

func (t *tally) hijack(err error) {
	if err == nil {
		t.hijacked = true
	}
}
