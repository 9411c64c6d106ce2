package middleware

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/reqlock/reqlock/keyfuncs"
)

// deriveKey runs the key function on r. body is what the handler is to read: a
// function that reads the body leaves another in r, that starts again, and r
// gets its own back, since net/http looks at the Body of its own request when
// it decides what becomes of the connection.
func (g *Guard) deriveKey(r *http.Request) (key string, body io.ReadCloser, err error) {
	own := r.Body
	defer func() { r.Body = own }()
	key, err = g.key(r)
	if err == nil && key == "" {
		err = errEmptyKey
	}
	return key, r.Body, err
}

var errEmptyKey = &keyfuncs.Error{Source: "key", Err: keyfuncs.ErrMissing}

// keyDenial is the answer where deriveKey returned err.
func keyDenial(err error) Denial {
	if errors.Is(err, keyfuncs.ErrMissing) || errors.Is(err, keyfuncs.ErrMalformed) {
		d := newDenial(NoKey, 0, err)
		d.Detail = strings.TrimPrefix(err.Error(), "keyfuncs: ") // made to be shown
		return d
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		d := newDenial(BodyTooLarge, 0, err)
		d.Detail += ": the limit is " + strconv.FormatInt(tooLarge.Limit, 10) + " bytes"
		return d
	}
	return newDenial(KeyFailed, 0, err)
}
