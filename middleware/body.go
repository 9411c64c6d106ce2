package middleware

import (
	"bytes"
	"io"
	"net/http"
)

// aheadLimit is how many bytes of body are read before a request waits.
const aheadLimit = 64 << 10

// hidesItsClient says whether net/http would not notice that the client of r
// has gone. On HTTP/1 it only does once the request's body has been read: a
// request that waits with its body unread would wait, and then be served, for
// nobody.
//
// Only a small body can be read ahead. One of unknown length its handler may
// want to answer while it comes, and one that its client only sends when asked
// to is not to be asked for yet.
func hidesItsClient(r *http.Request, body io.ReadCloser) bool {
	return r.ProtoMajor == 1 && body != nil && body != http.NoBody &&
		r.ContentLength > 0 && r.ContentLength <= aheadLimit && r.Header["Expect"] == nil
}

// readAhead returns a body that reads as body does: the same bytes, then the
// same error. It reads all of it first.
func readAhead(body io.ReadCloser) io.ReadCloser {
	var text bytes.Buffer // grows with what comes, not with what was declared
	_, err := io.Copy(&text, io.LimitReader(body, aheadLimit))
	if err == nil {
		return ahead{io.MultiReader(&text, body), body}
	}
	return ahead{io.MultiReader(&text, failed{err}), body}
}

// ahead reads what was read ahead, and is closed as the body is.
type ahead struct {
	io.Reader
	io.Closer
}

type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }
