package keyfuncs

import (
	"errors"
	"strconv"
	"strings"
)

// What is wrong with a request that no key can be derived from. Match with
// [errors.Is].
var (
	// ErrMissing: the request does not have the value, or it is empty.
	ErrMissing = errors.New("keyfuncs: missing")
	// ErrMalformed: the value is there, and is broken, ambiguous or of a kind
	// that makes no key.
	ErrMalformed = errors.New("keyfuncs: malformed")
)

// An Error says where in the request a value was looked for. It never holds
// the value, so its text is safe to show to the client:
//
//	keyfuncs: header "X-User-ID": missing
type Error struct {
	Source string // such as "header" or "path value"
	Name   string // as it was given to the Func; "" where the source has only one value
	Err    error  // ErrMissing or ErrMalformed, which the Error matches
	Detail string // what to do about it, or what exactly is wrong; may be ""
}

func (e *Error) Error() string {
	s := "keyfuncs: " + e.Source
	if e.Name != "" {
		s += " " + strconv.Quote(e.Name)
	}
	if e.Err != nil {
		s += ": " + strings.TrimPrefix(e.Err.Error(), "keyfuncs: ")
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

func missing(source, name string) error {
	return &Error{Source: source, Name: name, Err: ErrMissing}
}

func malformed(source, name, detail string) error {
	return &Error{Source: source, Name: name, Err: ErrMalformed, Detail: detail}
}

// one returns the value of a source that can be given several times. Readers
// differ in which one they take (the first, the last, all joined), so values
// that differ are refused: a client could lock one and have another worked on.
func one(source, name string, values []string) (string, error) {
	if len(values) == 0 {
		return "", missing(source, name)
	}
	for _, v := range values[1:] {
		if v != values[0] {
			return "", malformed(source, name, "given more than once")
		}
	}
	if values[0] == "" {
		return "", missing(source, name)
	}
	return values[0], nil
}
