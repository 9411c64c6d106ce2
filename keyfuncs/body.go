package keyfuncs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// MaxBody is how many bytes of a body [JSON] and [FormValue] read, 1 MiB. A
// larger one is a [*http.MaxBytesError], with the body still whole.
const MaxBody = 1 << 20

// peek reads the body of r ahead of the handler and leaves it whole. A body
// that was read ahead by another Func is not read again. nil without an error:
// there is no body.
func peek(r *http.Request) (*body, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	b, ok := r.Body.(*body)
	if !ok {
		// Known to be too large: it stays with the client, which may be
		// waiting for "100 Continue".
		if r.ContentLength > MaxBody {
			return nil, errTooLarge()
		}
		b = readAhead(r.Body)
		r.Body = b
	}
	switch {
	case len(b.text) > MaxBody:
		return nil, errTooLarge()
	case is[*http.MaxBytesError](b.err): // of a reader further out
		return nil, fmt.Errorf("keyfuncs: reading the request body: %w", b.err)
	case b.err != io.EOF:
		return nil, &brokenOff{b.err}
	case b.text == "":
		return nil, nil
	}
	return b, nil
}

func errTooLarge() error {
	return fmt.Errorf("keyfuncs: reading the request body: %w", &http.MaxBytesError{Limit: MaxBody})
}

// brokenOff is the error of a body that cannot be read to its end: its client
// has gone, is too slow or does not keep to the protocol. The cause is for logs,
// since it may name addresses.
type brokenOff struct{ cause error }

func (e *brokenOff) Error() string   { return "keyfuncs: request body: malformed: it breaks off" }
func (e *brokenOff) Unwrap() []error { return []error{ErrMalformed, e.cause} }

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// A body is a request body that was read ahead. To its reader it is the
// original: the same bytes, then the same error.
//
// Close may be called concurrently with Read, as net/http asks of bodies;
// nothing else may.
type body struct {
	src  io.ReadCloser
	text string       // what was read ahead, at most MaxBody+1 bytes
	off  int          // how much of it the reader has had
	err  error        // what src returned after text; nil: src has more
	doc  gjson.Result // text as JSON, from the first time that it is asked for

	closed atomic.Bool
}

func readAhead(src io.ReadCloser) *body {
	data, err := io.ReadAll(io.LimitReader(src, MaxBody+1))
	if err == nil && len(data) <= MaxBody {
		err = io.EOF
	}
	return &body{src: src, text: string(data), err: err}
}

func (b *body) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return b.src.Read(p) // says in its own words that it is closed
	}
	if b.off < len(b.text) {
		n := copy(p, b.text[b.off:])
		b.off += n
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.src.Read(p)
}

func (b *body) Close() error {
	b.closed.Store(true)
	return b.src.Close()
}

// json returns the body as JSON, false where it is not.
func (b *body) json() (gjson.Result, bool) {
	// encoding/json and not gjson decides what is valid: it bounds the depth,
	// where gjson.Valid would recurse a million times into a megabyte of "[".
	// Neither minds invalid UTF-8, which decoders replace, so that different
	// bytes become one value in the handler.
	if !b.doc.Exists() && utf8.ValidString(b.text) && json.Valid([]byte(b.text)) {
		b.doc = gjson.Parse(b.text)
	}
	return b.doc, b.doc.Exists()
}
