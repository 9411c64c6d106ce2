package ginlock

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/reqlock/reqlock/keyfuncs"
)

// Request returns the request as key functions see it: a copy of c.Request
// with gin's parameters as path values and what [Value] looks up in its
// context. Use it to derive a key outside of the guard, in a handler that
// interrupts the guarded one:
//
//	key, err := keyOf(ginlock.Request(c))
//	stopped, err := guard.Interrupt(c, key)
//
// A function that reads the body leaves it whole in the copy, not in
// c.Request. The copy, and what it holds, may be kept after c is gone.
func Request(c *gin.Context) *http.Request {
	ctx := context.WithValue(c.Request.Context(), valuesKey{}, values(c))
	var r *http.Request
	if c.Request.Pattern == "" {
		r = c.Request.WithContext(ctx)
	} else {
		// Another router further out has set path values, which a shallow
		// copy would share with its request.
		r = c.Request.Clone(ctx)
	}
	for _, p := range c.Params {
		if r.PathValue(p.Key) != p.Value { // an outer guard's already, mostly
			r.SetPathValue(p.Key, p.Value)
		}
	}
	return r
}

// Value returns a Func with the value that an earlier gin handler has put into
// the context with c.Set(name, …), such as the user that it has authenticated.
// Strings, integers and types with a String method make a key; other types are
// [keyfuncs.ErrMalformed]. No value, nil and "" are [keyfuncs.ErrMissing]: a 400
// here often means that the guard comes before the handler that sets the value.
// The value is taken as it is: wrap what is a secret in [keyfuncs.Hash].
//
// Outside of this package's handlers and [Request] it fails with an error that
// is neither, which a Guard answers with 500. Value panics where the name is
// empty.
func Value(name string) keyfuncs.Func {
	if name == "" {
		panic("ginlock: Value: the name is empty")
	}
	return func(r *http.Request) (string, error) {
		all, ok := r.Context().Value(valuesKey{}).(map[string]any)
		if !ok {
			return "", fmt.Errorf("ginlock: value %q: %w", name, errNotGin)
		}
		text, ok := keyText(all[name])
		switch {
		case !ok:
			return "", &keyfuncs.Error{Source: "gin value", Name: name, Err: keyfuncs.ErrMalformed, Detail: "its type makes no key"}
		case text == "":
			return "", &keyfuncs.Error{Source: "gin value", Name: name, Err: keyfuncs.ErrMissing}
		}
		return text, nil
	}
}

var errNotGin = errors.New("the request does not come from ginlock")

type valuesKey struct{}

// values copies what handlers have set so far, since the map is gin's and
// handlers go on writing to it, some on goroutines of their own: only c.Copy
// reads all of it under gin's lock. Only string keys can be asked for.
func values(c *gin.Context) map[string]any {
	keys := c.Copy().Keys
	if len(keys) == 0 {
		return nil
	}
	all := make(map[string]any, len(keys))
	for k, v := range keys {
		if k, ok := k.(string); ok {
			all[k] = v
		}
	}
	return all
}

// keyText returns "" for what is as good as no value, false for a type that
// makes no key.
func keyText(v any) (text string, ok bool) {
	switch v := v.(type) {
	case nil:
		return "", true
	case string:
		return v, true
	}
	rv := reflect.ValueOf(v)
	if rv.Kind() == reflect.Pointer && rv.IsNil() {
		return "", true
	}
	if s, ok := v.(fmt.Stringer); ok {
		return s.String(), true
	}
	switch {
	case rv.Kind() == reflect.String:
		return rv.String(), true
	case rv.CanInt():
		return strconv.FormatInt(rv.Int(), 10), true
	case rv.CanUint():
		return strconv.FormatUint(rv.Uint(), 10), true
	}
	return "", false
}
