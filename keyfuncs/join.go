package keyfuncs

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Join returns a Func whose key is the parts' values with colons between:
// "u1:s1". Colons and percent signs inside of a value are written %3A and %25,
// and no value is empty, so different lists of values never give the same key,
// whatever the values hold: user "a:b" with session "c" is "a%3Ab:c". A Join in
// a Join is one value, and escaped as such.
//
// The first part that fails decides the error; a part that is "" is missing.
// Join panics where it is given no part or a nil one.
func Join(parts ...Func) Func {
	mustHave("Join", parts...)
	parts = slices.Clone(parts)
	return func(r *http.Request) (string, error) {
		key := make([]byte, 0, 128) // does not escape: usual keys cost one allocation, the string
		for i, part := range parts {
			value, err := part(r)
			if err != nil {
				return "", err
			}
			if value == "" {
				return "", missing("part "+strconv.Itoa(i+1)+" of the key", "")
			}
			if i > 0 {
				key = append(key, ':')
			}
			key = appendEscaped(key, value)
		}
		return string(key), nil
	}
}

// appendEscaped appends s so that it holds no colon. The key can be taken
// apart again, which is why no two lists share one: split at the colons, then
// undo the escapes.
func appendEscaped(key []byte, s string) []byte {
	for {
		i := strings.IndexAny(s, ":%")
		if i < 0 {
			return append(key, s...)
		}
		key = append(key, s[:i]...)
		if s[i] == ':' {
			key = append(key, "%3A"...)
		} else {
			key = append(key, "%25"...)
		}
		s = s[i+1:]
	}
}

// FirstOf returns a Func with the first value there is. Only ErrMissing, or ""
// without an error, makes it go on to the next Func: a malformed value is not
// passed over, since a client could otherwise choose which source counts. Where
// all are missing the error matches ErrMissing and names every source.
//
// The key does not say which source it came from. Where the sources mean
// different things, tell them apart, or one user can take on another's key:
//
//	keyfuncs.FirstOf(
//		keyfuncs.Join(keyfuncs.Const("user"), keyfuncs.Header("X-User-ID")),
//		keyfuncs.Join(keyfuncs.Const("token"), keyfuncs.Bearer),
//	)
//
// FirstOf panics where it is given no Func or a nil one.
func FirstOf(fs ...Func) Func {
	mustHave("FirstOf", fs...)
	fs = slices.Clone(fs)
	return func(r *http.Request) (string, error) {
		var none noneOf
		for i, f := range fs {
			value, err := f(r)
			if err == nil && value == "" {
				err = missing("key function "+strconv.Itoa(i+1), "")
			}
			if err == nil {
				return value, nil
			}
			if !errors.Is(err, ErrMissing) {
				return "", err
			}
			none = append(none, err)
		}
		return "", none
	}
}

// noneOf are the errors of all the Funcs of a FirstOf, each one ErrMissing.
type noneOf []error

func (e noneOf) Unwrap() []error { return e }

func (e noneOf) Error() string {
	var s strings.Builder
	for i, err := range e {
		if i > 0 {
			s.WriteString("; ")
		}
		text := err.Error()
		if i > 0 {
			text = strings.TrimPrefix(text, "keyfuncs: ")
		}
		s.WriteString(text)
	}
	return s.String()
}
