package keyfuncs_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reqlock/reqlock/keyfuncs"
)

func TestQuery(t *testing.T) {
	const undecodable = `keyfuncs: query parameter "session": malformed: the query cannot be decoded`
	for query, want := range map[string]want{
		"session=s1":              is("s1"),
		"a=1&session=s+1%2F":      is("s 1/"),
		"s%65ssion=s1":            is("s1"),
		"session=s1&session=s1":   is("s1"),
		"":                        missing(`keyfuncs: query parameter "session": missing`),
		"session":                 missing(`keyfuncs: query parameter "session": missing`),
		"session=&a=1":            missing(`keyfuncs: query parameter "session": missing`),
		"Session=s1":              missing(`keyfuncs: query parameter "session": missing`),
		"session=s1&session=s2":   malformed(`keyfuncs: query parameter "session": malformed: given more than once`),
		"session=s1&session=":     malformed(`keyfuncs: query parameter "session": malformed: given more than once`),
		"session=s1&s%65ssion=s2": malformed(`keyfuncs: query parameter "session": malformed: given more than once`),
		"session=%zz":             malformed(undecodable),
		"session=s1;session=s2":   malformed(undecodable),
	} {
		r := request()
		r.URL.RawQuery = query
		t.Run(query, func(t *testing.T) { want.check(t, keyfuncs.Query("session"), r) })
	}
}

func TestMethodAndPath(t *testing.T) {
	r := httptest.NewRequest("PATCH", "/a%20b/c/?x=1", nil)
	is("PATCH").check(t, keyfuncs.Method, r)
	is("/a b/c/").check(t, keyfuncs.Path, r)
}

// serve passes r through mux and returns the request as its handler sees it.
func serve(t *testing.T, pattern string, r *http.Request) *http.Request {
	t.Helper()
	var seen *http.Request
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) { seen = r })
	mux.ServeHTTP(httptest.NewRecorder(), r)
	assert.NotNil(t, seen)
	return seen
}

func TestPathValueAndPattern(t *testing.T) {
	r := serve(t, "POST /sessions/{session}/messages", httptest.NewRequest("POST", "/sessions/s%2F1/messages", nil))
	is("s/1").check(t, keyfuncs.PathValue("session"), r)
	is("POST /sessions/{session}/messages").check(t, keyfuncs.Pattern, r)

	const absent = "missing: wrap the matched handler: the pattern of this one has no such wildcard, or it is empty"
	const why = "missing: wrap the matched handler: it is known only after the ServeMux has matched the request"
	missing(`keyfuncs: path value "user": `+absent).check(t, keyfuncs.PathValue("user"), r)
	missing(`keyfuncs: path value "session": `+why).check(t, keyfuncs.PathValue("session"), request())
	missing(`keyfuncs: pattern: `+why).check(t, keyfuncs.Pattern, request())
}
