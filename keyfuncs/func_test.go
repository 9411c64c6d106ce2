package keyfuncs_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/keyfuncs"
)

// want is what a Func should return: a key, or an error with this text that
// matches err.
type want struct {
	key  string
	err  error
	text string
}

func is(key string) want { return want{key: key} }

func missing(text string) want { return want{err: keyfuncs.ErrMissing, text: text} }

func malformed(text string) want { return want{err: keyfuncs.ErrMalformed, text: text} }

func (w want) check(t *testing.T, f keyfuncs.Func, r *http.Request) {
	t.Helper()
	key, err := f(r)
	if w.err != nil {
		require.ErrorIs(t, err, w.err)
		assert.EqualError(t, err, w.text)
		assert.Empty(t, key)
		return
	}
	require.NoError(t, err)
	assert.Equal(t, w.key, key)
}

func request(header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func value(s string) keyfuncs.Func {
	return func(*http.Request) (string, error) { return s, nil }
}

func fails(err error) keyfuncs.Func {
	return func(*http.Request) (string, error) { return "", err }
}

func TestConst(t *testing.T) {
	is("cart").check(t, keyfuncs.Const("cart"), request())
}

func TestHash(t *testing.T) {
	broken := errors.New("session store is away")
	// printf hello | sha256sum
	is("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824").check(t, keyfuncs.Hash(value("hello")), request())
	missing("keyfuncs: value to hash: missing").check(t, keyfuncs.Hash(value("")), request())
	want{err: broken, text: broken.Error()}.check(t, keyfuncs.Hash(fails(broken)), request())
}

func TestProgrammerErrorsPanic(t *testing.T) {
	some := value("x")
	for text, construct := range map[string]func(){
		"keyfuncs: Join: needs at least one Func":                        func() { keyfuncs.Join() },
		"keyfuncs: Join: Func 2 of 3 is nil":                             func() { keyfuncs.Join(some, nil, some) },
		"keyfuncs: FirstOf: needs at least one Func":                     func() { keyfuncs.FirstOf() },
		"keyfuncs: FirstOf: Func 1 of 1 is nil":                          func() { keyfuncs.FirstOf(nil) },
		"keyfuncs: Hash: Func 1 of 1 is nil":                             func() { keyfuncs.Hash(nil) },
		"keyfuncs: Const: the value is empty":                            func() { keyfuncs.Const("") },
		"keyfuncs: Header: the name is empty":                            func() { keyfuncs.Header("") },
		"keyfuncs: Cookie: the name is empty":                            func() { keyfuncs.Cookie("") },
		"keyfuncs: Query: the name is empty":                             func() { keyfuncs.Query("") },
		"keyfuncs: PathValue: the name is empty":                         func() { keyfuncs.PathValue("") },
		"keyfuncs: FormValue: the name is empty":                         func() { keyfuncs.FormValue("") },
		`keyfuncs: JSON: path "": a key is empty`:                        func() { keyfuncs.JSON("") },
		`keyfuncs: JSON: path "a..b": a key is empty`:                    func() { keyfuncs.JSON("a..b") },
		`keyfuncs: JSON: path "a.": a key is empty`:                      func() { keyfuncs.JSON("a.") },
		`keyfuncs: JSON: path "a\\": nothing follows the last backslash`: func() { keyfuncs.JSON(`a\`) },
		`keyfuncs: JSON: path "items.#.id": only keys and indexes with dots between make a key; write \# for the character itself`: func() { keyfuncs.JSON("items.#.id") },
		`keyfuncs: JSON: path "us*r": only keys and indexes with dots between make a key; write \* for the character itself`:       func() { keyfuncs.JSON("us*r") },
		`keyfuncs: JSON: path "a|@reverse": only keys and indexes with dots between make a key; write \| for the character itself`: func() { keyfuncs.JSON("a|@reverse") },
		`keyfuncs: JSON: path "{a,b}": only keys and indexes with dots between make a key; write \{ for the character itself`:      func() { keyfuncs.JSON("{a,b}") },
		`keyfuncs: JSON: path "items[0]": only keys and indexes with dots between make a key; write \[ for the character itself`:   func() { keyfuncs.JSON("items[0]") },
		"keyfuncs: RemoteIP: a trusted prefix is invalid":                                                                          func() { keyfuncs.RemoteIP(netip.Prefix{}) },
		"keyfuncs: RemoteIP: trusting 0.0.0.0/0 would let every client choose its address":                                         func() { keyfuncs.RemoteIP(netip.MustParsePrefix("0.0.0.0/0")) },
		"keyfuncs: RemoteIP: trusting ::/0 would let every client choose its address":                                              func() { keyfuncs.RemoteIP(netip.MustParsePrefix("::/0")) },
	} {
		t.Run(text, func(t *testing.T) { assert.PanicsWithValue(t, text, construct) })
	}
}

func TestArgumentsAreCopied(t *testing.T) {
	parts := []keyfuncs.Func{value("a"), value("b")}
	join, first := keyfuncs.Join(parts...), keyfuncs.FirstOf(parts...)
	clear(parts)
	is("a:b").check(t, join, request())
	is("a").check(t, first, request())
}

func TestZeroRequestIsMissing(t *testing.T) {
	for name, f := range map[string]keyfuncs.Func{
		"Header": keyfuncs.Header("X-User-ID"), "Query": keyfuncs.Query("q"), "PathValue": keyfuncs.PathValue("id"),
		"Cookie": keyfuncs.Cookie("sid"), "FormValue": keyfuncs.FormValue("f"), "JSON": keyfuncs.JSON("a"),
		"RemoteIP": keyfuncs.RemoteIP(), "Method": keyfuncs.Method, "Host": keyfuncs.Host, "Path": keyfuncs.Path,
		"Pattern": keyfuncs.Pattern, "Bearer": keyfuncs.Bearer,
	} {
		_, err := f(&http.Request{})
		assert.ErrorIs(t, err, keyfuncs.ErrMissing, name)
	}
}

func TestErrorForFuncsOfOnesOwn(t *testing.T) {
	err := error(&keyfuncs.Error{Source: "session", Name: "sid", Err: keyfuncs.ErrMissing, Detail: "sign in first"})
	assert.EqualError(t, err, `keyfuncs: session "sid": missing: sign in first`)
	assert.ErrorIs(t, err, keyfuncs.ErrMissing)
	assert.NotErrorIs(t, err, keyfuncs.ErrMalformed)
	assert.EqualError(t, &keyfuncs.Error{Source: "session"}, "keyfuncs: session")
}
