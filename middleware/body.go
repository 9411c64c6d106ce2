package middleware

import (
	"bytes"
	"io"
	"net/http"
)

// aheadLimit is how many bytes of body are read before a request waits.
const aheadLimit = 64 << 10

// readAhead returns a body that reads as the body of r, and reads it first if
// it is small. On HTTP/1, net/http only notices that a client has gone once the
// body of its request has been read: a request that waits with its body unread
// would wait, and then be served, for nobody. A slow upload is kept out of the
// time that the key is held, too.
//
// Left alone are a body of unknown length, which its handler may answer while
// it comes, and one that the client only sends when it is asked to.
func readAhead(r *http.Request, body io.ReadCloser) io.ReadCloser {
	if r.ProtoMajor != 1 || r.ContentLength <= 0 || r.ContentLength > aheadLimit || r.Header["Expect"] != nil {
		return body
	}
	text := make([]byte, r.ContentLength+1) // one more, to see the end
	n, err := io.ReadFull(body, text)
	rest := io.Reader(body)
	switch err {
	case nil:
	case io.EOF, io.ErrUnexpectedEOF:
		// Which of the two the body itself has said, it says again.
	default:
		rest = failed{err}
	}
	return ahead{io.MultiReader(bytes.NewReader(text[:n]), rest), body}
}

// ahead reads what was read ahead, and is closed as the body is.
type ahead struct {
	io.Reader
	io.Closer
}

type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }
