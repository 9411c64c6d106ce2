package keyfuncs

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// JSON returns a Func with a value in the JSON body, whatever its Content-Type:
// a handler that decodes the body does not look at it either. The path is a
// [gjson path] of keys and array indexes with dots between: "user",
// "metadata.session_id", "items.0.id". A backslash takes the next character as
// it is: `odd\.key`. The rest of gjson's syntax (wildcards, queries, modifiers,
// multipaths) would make a key of several values: JSON panics where the path
// has it.
//
// Strings, numbers and booleans make a key. A string is taken as it is. A
// number is what it is worth: 1, 1.0 and 1e0 are "1", integers are exact to the
// last digit and other numbers rounded as a float64. The number 1 and the
// string "1" give the same key, as do true and "true".
//
// No body, an absent key, null and "" are ErrMissing. ErrMalformed are: invalid
// JSON, invalid UTF-8 included; an object or array at the end of the path, or
// another value before its end; and a key on the path that its object holds
// twice, or in another case. A body beyond [MaxBody] is a
// [*http.MaxBytesError].
//
// [gjson path]: https://github.com/tidwall/gjson/blob/master/SYNTAX.md
func JSON(path string) Func {
	const source = "JSON"
	segments := mustPath(path)
	return func(r *http.Request) (string, error) {
		b, err := peek(r)
		if err != nil {
			return "", err
		}
		if b == nil {
			return "", missing(source, path)
		}
		value, ok := b.json()
		if !ok {
			return "", malformed(source, path, "the body is not valid JSON")
		}
		for _, segment := range segments {
			var problem string
			if value, problem = member(value, segment); problem != "" {
				return "", malformed(source, path, problem)
			}
		}
		text, problem := scalar(value)
		if problem != "" {
			return "", malformed(source, path, problem)
		}
		if text == "" {
			return "", missing(source, path)
		}
		return text, nil
	}
}

// member returns what value holds under a key or index, the zero Result where
// it holds nothing.
func member(value gjson.Result, segment string) (found gjson.Result, problem string) {
	switch {
	case value.Type == gjson.Null: // null or, from an earlier step, nothing
		return gjson.Result{}, ""
	case value.IsObject():
		return memberOf(value, segment)
	case value.IsArray():
		index, err := strconv.ParseUint(segment, 10, 31)
		if err != nil {
			return gjson.Result{}, "an array is where an object should be"
		}
		value.ForEach(func(_, element gjson.Result) bool {
			if index == 0 {
				found = element
				return false
			}
			index--
			return true
		})
		return found, ""
	}
	return gjson.Result{}, "a plain value is where an object should be"
}

// memberOf looks at all keys of an object. gjson would take the first of two
// equal ones, while encoding/json takes the last, and there also "ID" for "id":
// a client that sends both would lock one and have the handler work on the
// other. Nothing but one key, written as in the path, is safe to go by.
func memberOf(object gjson.Result, name string) (found gjson.Result, problem string) {
	count := 0
	object.ForEach(func(key, value gjson.Result) bool {
		if !strings.EqualFold(key.Str, name) {
			return true
		}
		if key.Str != name {
			problem = "a key is written in another case"
		}
		found = value
		count++
		return count < 2
	})
	if count > 1 {
		problem = "a key is given more than once"
	}
	return found, problem
}

// scalar returns the key that a value makes, "" for null or no value.
func scalar(value gjson.Result) (text, problem string) {
	switch value.Type {
	case gjson.Null:
		return "", ""
	case gjson.String:
		return value.Str, ""
	case gjson.True, gjson.False:
		return value.Raw, ""
	case gjson.Number:
		return number(value.Raw)
	}
	return "", "an object or array makes no key"
}

// number returns one text for all the ways to write a number. Plain integers
// stay digits, since ids beyond 1<<53 do not survive a float64. What is written
// nothing with a fraction or an exponent into an integer, so there a float64
// is what the handler can have made of it.
func number(raw string) (text, problem string) {
	if !strings.ContainsAny(raw, ".eE") && raw != "-0" {
		return raw, ""
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil {
		return "", "a number is out of range"
	}
	if f == 0 { // not "-0"
		return "0", ""
	}
	return strconv.FormatFloat(f, 'f', -1, 64), ""
}

// mustPath splits a path into its keys and indexes.
func mustPath(path string) []string {
	var segments []string
	var segment []byte
	end := func() {
		if len(segment) == 0 {
			panic("keyfuncs: JSON: path " + strconv.Quote(path) + ": a key is empty")
		}
		segments = append(segments, string(segment))
		segment = nil
	}
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch {
		case c == '.':
			end()
			continue
		case c == '\\':
			if i++; i == len(path) {
				panic("keyfuncs: JSON: path " + strconv.Quote(path) + ": nothing follows the last backslash")
			}
			c = path[i]
		case strings.IndexByte("*?#|@!{}[]()", c) >= 0:
			panic("keyfuncs: JSON: path " + strconv.Quote(path) + ": only keys and indexes with dots between make a key; write \\" + string(c) + " for the character itself")
		}
		segment = append(segment, c)
	}
	end()
	return segments
}
