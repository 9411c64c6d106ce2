package keyfuncs

import (
	"net/http"
	"net/url"
)

// Method is the request's method, as sent.
func Method(r *http.Request) (string, error) {
	if r.Method == "" {
		return "", missing("method", "")
	}
	return r.Method, nil
}

// Path is the request's path, decoded ("/a b" for "/a%20b"), as the handler
// sees it at this place: without what an http.StripPrefix outside of it has
// taken away. "/x" and "/x/" are different.
func Path(r *http.Request) (string, error) {
	if r.URL == nil || r.URL.Path == "" {
		return "", missing("path", "")
	}
	return r.URL.Path, nil
}

const (
	wrapMatched = "wrap the matched handler: it is known only after the ServeMux has matched the request"
	noWildcard  = "wrap the matched handler: the pattern of this one has no such wildcard, or it is empty"
)

// Pattern is the ServeMux pattern that matched, "POST /orders/{id}": the same
// for all who use the route, so it is a part of a key and never a key of its
// own. It is known only after the ServeMux has matched: wrap the handler that
// is registered with the mux, not the mux.
func Pattern(r *http.Request) (string, error) {
	if r.Pattern == "" {
		return "", &Error{Source: "pattern", Err: ErrMissing, Detail: wrapMatched}
	}
	return r.Pattern, nil
}

// PathValue returns a Func with the value of a wildcard in the ServeMux pattern
// that matched: PathValue("session") for "/sessions/{session}". It is known
// only after the ServeMux has matched: wrap the handler that is registered with
// the mux, not the mux.
//
//	mux.Handle("POST /sessions/{session}/messages", guard(chat)) // and not guard(mux)
//
// PathValue panics where the name is empty.
func PathValue(name string) Func {
	mustName("PathValue", name)
	return func(r *http.Request) (string, error) {
		value := r.PathValue(name)
		if value == "" {
			detail := noWildcard
			if r.Pattern == "" {
				detail = wrapMatched
			}
			return "", &Error{Source: "path value", Name: name, Err: ErrMissing, Detail: detail}
		}
		return value, nil
	}
}

// Query returns a Func with the value of a parameter in the URL's query. One
// given several times with different values, and a query that cannot be
// decoded, are ErrMalformed. Query panics where the name is empty.
func Query(name string) Func {
	mustName("Query", name)
	const source = "query parameter"
	return func(r *http.Request) (string, error) {
		if r.URL == nil || r.URL.RawQuery == "" {
			return "", missing(source, name)
		}
		// net/url leaves out what it cannot decode, other readers do not.
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return "", malformed(source, name, "the query cannot be decoded")
		}
		return one(source, name, query[name])
	}
}
