package middleware

import (
	"bytes"
	"io"
	"math"
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

// wholeBody returns the body of r, if all of it can be had now: body has been read ahead,
// or declares that it is not larger than g.maxBody. Otherwise rest reads as body did.
func (g *Guard) wholeBody(r *http.Request, body io.ReadCloser) (text []byte, rest io.ReadCloser, whole bool) {
	if body == nil || body == http.NoBody {
		return nil, body, true
	}
	read := body != r.Body
	if !read && (r.ContentLength < 0 || r.ContentLength > g.maxBody) {
		return nil, body, false // its handler may want to answer while it comes
	}
	text, err := io.ReadAll(io.LimitReader(body, min(g.maxBody, math.MaxInt64-1)+1))
	switch {
	case err != nil:
		return nil, ahead{io.MultiReader(bytes.NewReader(text), failed{err}), body}, false
	case int64(len(text)) > g.maxBody:
		return nil, ahead{io.MultiReader(bytes.NewReader(text), body), body}, false
	default:
		return text, body, true
	}
}

// again returns a body with a text that was read.
func again(text []byte) io.ReadCloser {
	if len(text) == 0 {
		return http.NoBody
	}
	return io.NopCloser(bytes.NewReader(text))
}
