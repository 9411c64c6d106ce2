package keyfuncs_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/reqlock/reqlock/keyfuncs"
)

func joined(parts ...string) keyfuncs.Func {
	fs := make([]keyfuncs.Func, len(parts))
	for i, p := range parts {
		fs[i] = value(p)
	}
	return keyfuncs.Join(fs...)
}

func TestJoin(t *testing.T) {
	broken := errors.New("session store is away")
	is("u1:s1").check(t, joined("u1", "s1"), request())
	is("u1").check(t, joined("u1"), request())
	is("a%3Ab:100%25").check(t, joined("a:b", "100%"), request())
	missing("keyfuncs: part 2 of the key: missing").check(t, joined("u1", "", "s1"), request())
	want{err: broken, text: broken.Error()}.check(t, keyfuncs.Join(value("u1"), fails(broken), value("")), request())
	missing(`keyfuncs: header "A": missing`).check(t, keyfuncs.Join(keyfuncs.Header("A"), keyfuncs.Header("B")), request())
}

func TestH20_DifferentPartsNeverShareAKey(t *testing.T) {
	big := strings.Repeat("x", 100_000)
	lists := [][]string{
		{"a:b", "c"}, {"a", "b:c"}, {"a", "b", "c"}, {"a:b:c"}, {"a", "b"}, {"a:b"}, {"a"}, {"a:"}, {":a"}, {":"}, {":", ":"}, {"::"}, {":::"},
		{"a%3Ab"}, {"a%3ab"}, {"a%253Ab"}, {"%", "3A"}, {"%3A"}, {"%"}, {"%", "%"}, {"%25"}, {`a\:b`}, {`a\`, "b"},
		{"{a}", "b"}, {"{a", "}b"}, {"a}", "{b"}, {"{a}:b"},
		{"a\nb"}, {"a", "\nb"}, {"a\n", "b"}, {"a\r\n", "b"}, {"a\x00", "b"}, {"a", "\x00b"}, {" a", "b"}, {"a ", "b"}, {"a", " b"},
		{"\xff", "\xfe"}, {"\xfe", "\xff"}, {"\xff\xfe"}, {"\ufffd", "\ufffd"}, {"\xc3", "\xa9"}, {"é"},
		{big}, {big, "x"}, {"x", big}, {big + "x"}, {big[1:], "x"}, {big + ":x"}, {strings.Repeat(":", 100_000)}, {strings.Repeat("%3A", 100_000)},
	}
	seen := map[string][]string{}
	for _, list := range lists {
		key, err := joined(list...)(request())
		require.NoError(t, err)
		assert.NotContains(t, seen, key, "%.40q", list)
		seen[key] = list
	}
	assert.Len(t, seen, len(lists))
}

func TestH20_ThroughARequest(t *testing.T) {
	key := keyfuncs.Join(keyfuncs.Header("X-User-ID"), keyfuncs.PathValue("session"))
	of := func(user, session string) *http.Request {
		r := request("X-User-ID", user)
		r.SetPathValue("session", session)
		return r
	}
	is("a%3Ab:c").check(t, key, of("a:b", "c"))
	is("a:b%3Ac").check(t, key, of("a", "b:c"))
	missing(`keyfuncs: header "X-User-ID": missing`).check(t, key, of("", "a:b"))
	_, err := key(of("a:b", ""))
	assert.ErrorIs(t, err, keyfuncs.ErrMissing)
}

func TestJoin_Nested(t *testing.T) {
	a, b, c := value("a"), value("b"), value("c")
	seen := map[string]bool{}
	for _, f := range []keyfuncs.Func{
		keyfuncs.Join(a, b, c), keyfuncs.Join(keyfuncs.Join(a, b), c), keyfuncs.Join(a, keyfuncs.Join(b, c)), keyfuncs.Join(keyfuncs.Join(a, b, c)),
	} {
		key, err := f(request())
		require.NoError(t, err)
		seen[key] = true
	}
	assert.Len(t, seen, 4)
}

// awkward draws lists of parts made of what the encoding itself is made of, so
// that near misses are likely.
func awkward() *rapid.Generator[[]string] {
	piece := rapid.SampledFrom([]string{":", "%", "%3A", "%25", "3A", "25", "3", "A", "a", "{", "}", "\n", "\\", "\xff", "é"})
	part := rapid.Map(rapid.SliceOfN(piece, 1, 4), func(pieces []string) string { return strings.Join(pieces, "") })
	return rapid.SliceOfN(part, 1, 4)
}

func TestJoin_DifferentListsDifferentKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := awkward().Draw(t, "a"), awkward().Draw(t, "b")
		ka, err := joined(a...)(request())
		require.NoError(t, err)
		kb, err := joined(b...)(request())
		require.NoError(t, err)
		assert.Equal(t, slices.Equal(a, b), ka == kb, "%q and %q", ka, kb)
	})
}

// What can be taken apart again cannot stand for two lists.
func TestJoin_CanBeTakenApart(t *testing.T) {
	unescape := strings.NewReplacer("%3A", ":", "%25", "%")
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.OneOf(awkward(), rapid.SliceOfN(rapid.StringN(1, -1, -1), 1, 5)).Draw(t, "parts")
		key, err := joined(parts...)(request())
		require.NoError(t, err)
		var apart []string
		for escaped := range strings.SplitSeq(key, ":") {
			apart = append(apart, unescape.Replace(escaped))
		}
		assert.Equal(t, parts, apart)
	})
}

func TestFirstOf(t *testing.T) {
	broken := errors.New("session store is away")
	header, query := keyfuncs.Header("X-User-ID"), keyfuncs.Query("user")
	ambiguous := malformed(`keyfuncs: header "X-User-ID": malformed: given more than once`)

	is("u1").check(t, keyfuncs.FirstOf(header, value("u2")), request("X-User-ID", "u1"))
	is("u2").check(t, keyfuncs.FirstOf(header, value("u2")), request())
	is("u2").check(t, keyfuncs.FirstOf(value(""), header, value("u2")), request())
	is("u2").check(t, keyfuncs.FirstOf(keyfuncs.FirstOf(header, query), value("u2")), request())
	ambiguous.check(t, keyfuncs.FirstOf(header, value("u2")), request("X-User-ID", "u1", "X-User-ID", "x"))
	want{err: broken, text: broken.Error()}.check(t, keyfuncs.FirstOf(fails(broken), value("u2")), request())

	missing(`keyfuncs: header "X-User-ID": missing`).check(t, keyfuncs.FirstOf(header), request())
	missing(`keyfuncs: header "X-User-ID": missing; query parameter "user": missing; bearer token: missing; key function 3: missing`).
		check(t, keyfuncs.FirstOf(header, keyfuncs.FirstOf(query, keyfuncs.Bearer), value("")), request())

	// An error of all being missing is not one of something being malformed.
	_, err := keyfuncs.FirstOf(header, query)(request())
	assert.NotErrorIs(t, err, keyfuncs.ErrMalformed)
}

func BenchmarkJoin(b *testing.B) {
	key := keyfuncs.Join(keyfuncs.Header("X-User-ID"), keyfuncs.Header("X-Session-ID"))
	r := request("X-User-ID", "0190b0f6-7b0a-7d3e-9d61-3a1f0c2b4d5e", "X-Session-ID", "sess_01J8ZQ4M5N6P7R8S")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := key(r); err != nil {
			b.Fatal(err)
		}
	}
}

func TestJoin_AllocatesTheKeyOnly(t *testing.T) {
	key := keyfuncs.Join(keyfuncs.Header("X-User-ID"), keyfuncs.Header("X-Session-ID"))
	r := request("X-User-ID", "u1", "X-Session-ID", "s:1")
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = key(r) }), 1.0)
}
