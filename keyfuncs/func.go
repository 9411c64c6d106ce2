package keyfuncs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
)

// A Func derives a key, or a part of one, from a request. Package middleware
// runs it once per request. It is safe for concurrent use, keeps nothing of
// the request, and leaves it as it was; [JSON] and [FormValue] replace r.Body
// by one that reads the same.
//
// Errors: one that matches [ErrMissing] or [ErrMalformed] is the client's
// fault, and its text is shown to the client. A [*http.MaxBytesError] in the
// chain says that the body is too large. Any other error is the server's
// fault, and is not shown. "" without an error is as good as missing.
type Func func(r *http.Request) (string, error)

// Const returns a Func with the same value for every request: a namespace
// inside [Join], and never a key of its own, which would be global. It panics
// where the value is empty.
func Const(value string) Func {
	if value == "" {
		panic("keyfuncs: Const: the value is empty")
	}
	return func(*http.Request) (string, error) { return value, nil }
}

// Hash returns a Func with the SHA-256 of f's value, as 64 hexadecimal digits
// (what sha256sum prints, so an operator who has the value can find its lock).
// Keys are shown in Redis and in logs: hash what is a secret. A secret short
// enough to be guessed is not hidden by it. Hash panics where f is nil.
func Hash(f Func) Func {
	mustHave("Hash", f)
	return func(r *http.Request) (string, error) {
		value, err := f(r)
		if err != nil {
			return "", err
		}
		// The hash of nothing would be a key that all without a value share.
		if value == "" {
			return "", missing("value to hash", "")
		}
		sum := sha256.Sum256([]byte(value))
		return hex.EncodeToString(sum[:]), nil
	}
}

// mustHave panics where a caller was given no Func to call, or a nil one.
func mustHave(caller string, fs ...Func) {
	if len(fs) == 0 {
		panic("keyfuncs: " + caller + ": needs at least one Func")
	}
	if i := slices.IndexFunc(fs, func(f Func) bool { return f == nil }); i >= 0 {
		panic(fmt.Sprintf("keyfuncs: %s: Func %d of %d is nil", caller, i+1, len(fs)))
	}
}

// mustName panics where a name is empty: no request could ever have a value.
func mustName(caller, name string) {
	if name == "" {
		panic("keyfuncs: " + caller + ": the name is empty")
	}
}
