package keyfuncs_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/reqlock/reqlock/keyfuncs"
)

func post(body string) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
}

func TestJSON(t *testing.T) {
	absent := func(path string) want { return missing("keyfuncs: JSON " + strconv.Quote(path) + ": missing") }
	bad := func(path, why string) want {
		return malformed("keyfuncs: JSON " + strconv.Quote(path) + ": malformed: " + why)
	}
	const (
		invalid = "the body is not valid JSON"
		twice   = "a key is given more than once"
		cased   = "a key is written in another case"
		plain   = "a plain value is where an object should be"
		array   = "an array is where an object should be"
		nested  = "an object or array makes no key"
		tooBig  = "a number is out of range"
	)
	for _, c := range []struct {
		path, body string
		want       want
	}{
		{"user", `{"user":"u1"}`, is("u1")},
		{"user", " \n{ \"a\" : [1,{}] , \"user\" :\t\"u1\" }\n", is("u1")},
		{"metadata.session_id", `{"metadata":{"a":1,"session_id":"s1"},"session_id":"x"}`, is("s1")},
		{"items.1.id", `{"items":[{"id":"a"},{"id":"b"}]}`, is("b")},
		{"0", `["a"]`, is("a")},
		{"0", `{"0":"a"}`, is("a")},
		{"1.0", `[[],["x"]]`, is("x")},
		{`a\.b`, `{"a":{"b":"x"},"a.b":"y"}`, is("y")},
		{`\$id`, `{"$id":"x"}`, is("x")},
		{`\@type`, `{"@type":"x"}`, is("x")},
		{"$id", `{"$id":"x"}`, is("x")},
		{"naïve", `{"naïve":"x"}`, is("x")},
		{"user", `{"us\u0065r":"\u0075\/\ud83d\ude00\n\""}`, is("u/😀\n\"")},
		{"user", `{"user":"\ud800"}`, is("\ufffd")},

		{"n", `{"n":42}`, is("42")},
		{"n", `{"n":"42"}`, is("42")},
		{"n", `{"n":-7}`, is("-7")},
		{"n", `{"n":0}`, is("0")},
		{"n", `{"n":-0}`, is("0")},
		{"n", `{"n":-0.0e5}`, is("0")},
		{"n", `{"n":1.0}`, is("1")},
		{"n", `{"n":1E0}`, is("1")},
		{"n", `{"n":10e-1}`, is("1")},
		{"n", `{"n":1e2}`, is("100")},
		{"n", `{"n":1.50}`, is("1.5")},
		{"n", `{"n":9007199254740993}`, is("9007199254740993")},
		{"n", `{"n":1e400}`, bad("n", tooBig)},
		{"n", `{"n":"1.0"}`, is("1.0")},
		{"b", `{"b":true}`, is("true")},
		{"b", `{"b":false}`, is("false")},

		{"user", ``, absent("user")},
		{"user", `{}`, absent("user")},
		{"user", `{"user":null}`, absent("user")},
		{"user", `{"user":""}`, absent("user")},
		{"user", `null`, absent("user")},
		{"a.b.c", `{"a":null}`, absent("a.b.c")},
		{"a.b.c", `{"a":{}}`, absent("a.b.c")},
		{"items.2", `{"items":["a","b"]}`, absent("items.2")},
		{"items.0", `{"items":[]}`, absent("items.0")},

		{"user", `{"user":"u1"`, bad("user", invalid)},
		{"user", `{"user":"u1"}{"user":"u2"}`, bad("user", invalid)},
		{"user", `{"user":"u1",}`, bad("user", invalid)},
		{"user", `{user:"u1"}`, bad("user", invalid)},
		{"user", `user=u1`, bad("user", invalid)},
		{"user", "\ufeff" + `{"user":"u1"}`, bad("user", invalid)},
		{"user", `{"user":01}`, bad("user", invalid)},
		{"user", "{\"user\":\"u\xff\"}", bad("user", invalid)},
		{"user", "{\"user\":\"u1\",\"x\":\"\xff\"}", bad("user", invalid)},
		{"user", `{"user":"u1","x":` + strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000) + `}`, bad("user", invalid)},

		{"user", `{"user":"u1","user":"u2"}`, bad("user", twice)},
		{"user", `{"user":"u1","user":"u1"}`, bad("user", twice)},
		{"user", `{"user":null,"x":1,"us\u0065r":"u1"}`, bad("user", twice)},
		{"user", `{"user":"u1","User":"u2"}`, bad("user", twice)},
		{"user", `{"uſer":"u2","user":"u1"}`, bad("user", twice)},
		{"user", `{"USER":"u1"}`, bad("user", cased)},
		{"a.b", `{"a":{"b":1},"a":{"b":2}}`, bad("a.b", twice)},
		{"a.b", `{"a":{"b":1},"A":{"b":2}}`, bad("a.b", twice)},
		{"a.b", `{"a":{"b":1,"b":2}}`, bad("a.b", twice)},
		{"items.1.id", `{"items":[{"id":1,"id":2},{"id":3,"id":4}]}`, bad("items.1.id", twice)},
		{"user", `{"x":1,"x":2,"user":"u1","y":{"user":1,"user":2}}`, is("u1")}, // not on the path

		{"user", `{"user":{}}`, bad("user", nested)},
		{"user", `{"user":[]}`, bad("user", nested)},
		{"user", `"u1"`, bad("user", plain)},
		{"a.b", `{"a":"x"}`, bad("a.b", plain)},
		{"a.b", `{"a":false}`, bad("a.b", plain)},
		{"a.b", `{"a":[1]}`, bad("a.b", array)},
		{"a.-1", `{"a":[1]}`, bad("a.-1", array)},
	} {
		t.Run(c.path+" in "+c.body[:min(len(c.body), 60)], func(t *testing.T) {
			r := post(c.body)
			c.want.check(t, keyfuncs.JSON(c.path), r)
			rest, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			assert.True(t, c.body == string(rest), "the body is whole")
		})
	}
}

// The Content-Type is the client's to choose, and no JSON handler looks at it:
// it must not make a value go missing, or FirstOf would go on to another key.
func TestJSON_WhateverTheContentType(t *testing.T) {
	r := post(`{"user":"u1"}`)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	is("u1").check(t, keyfuncs.JSON("user"), r)
}

// viaEncodingJSON finds what a handler finds that decodes into a struct with
// fields of the path's names.
func viaEncodingJSON(body []byte, segments ...string) (any, error) {
	var value any
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	err := dec.Decode(&value)
	for _, s := range segments {
		switch v := value.(type) {
		case map[string]any:
			value = v[s]
		case []any:
			if i, err := strconv.Atoi(s); err == nil && i < len(v) {
				value = v[i]
			} else {
				value = nil
			}
		default:
			value = nil
		}
	}
	return value, err
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"user":"u1","a":{"b":[{"c":1},{"c":"x"}]}}`, `{"a":{"b":[]}}`, `{"user":"\ud800\u0041"}`, `{"us\u0065r":1.50}`,
		`[ ]`, `{"a" : {"b" : [ {"c":1 } ,{ "c" : true}, 3 ] } }`, `"x"`, `{"user":-0}`, `{"user":"\\","a":"\\\""}`, `{"":{"":1},"user":1e3}`,
		`{"user":"a","user":"b"}`, `{"User":"a"}`, "{\"user\":\"\xff\"}", `{"user":{"user":1},"a":[[[]],{"b":{}}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for path, segments := range map[string][]string{"user": {"user"}, "a.b.1.c": {"a", "b", "1", "c"}, "0": {"0"}} {
			r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
			key, err := keyfuncs.JSON(path)(r)
			whole, readErr := io.ReadAll(r.Body)
			require.NoError(t, readErr)
			assert.True(t, bytes.Equal(body, whole))
			if err != nil {
				assert.True(t, isClientError(err), err)
				continue
			}
			// Where there is a key, encoding/json found the same value.
			found, err := viaEncodingJSON(body, segments...)
			require.NoError(t, err)
			switch v := found.(type) {
			case string:
				assert.Equal(t, v, key)
			case bool:
				assert.Equal(t, strconv.FormatBool(v), key)
			case json.Number:
				a, _ := v.Float64()
				b, err := strconv.ParseFloat(key, 64)
				require.NoError(t, err)
				assert.Equal(t, a, b+0)
			default:
				t.Errorf("a key of %v: %q", found, key)
			}
		}
	})
}

func FuzzJSONPath(f *testing.F) {
	for _, seed := range []string{"user", "a.b", `a\.b`, "a..b", `\`, "#", "0", "a|b", "@this", `\\`, "\xff", "a:b", "."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		defer func() {
			if p := recover(); p != nil {
				text, ok := p.(string)
				assert.True(t, ok && strings.HasPrefix(text, "keyfuncs: JSON: path "), "%v", p)
			}
		}()
		key, err := keyfuncs.JSON(path)(post(`{"user":"u1","a":{"b":"x"},"a.b":"y","#":[],"0":["z"]}`))
		if err == nil {
			assert.Contains(t, []string{"u1", "x", "y", "z"}, key)
		} else {
			assert.True(t, isClientError(err), err)
		}
	})
}

// Whatever order, spacing and escapes a document has, the key is the value.
func TestJSON_AnyDocument(t *testing.T) {
	name := rapid.SampledFrom([]string{"user", "x", "y", "items", ""})
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.StringN(1, 10, -1).Draw(t, "value")
		doc := map[string]any{"user": want}
		for range rapid.IntRange(0, 3).Draw(t, "others") {
			if k := name.Draw(t, "key"); k != "user" {
				doc[k] = rapid.SampledFrom([]any{nil, true, 1.5, "user", `"`, `\`, []any{"user", map[string]any{"user": 1}}, map[string]any{"user": "x"}}).Draw(t, "other")
			}
		}
		body, err := json.MarshalIndent(doc, "", rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "indent"))
		require.NoError(t, err)
		key, err := keyfuncs.JSON("user")(post(string(body)))
		require.NoError(t, err)
		assert.Equal(t, want, key)
	})
}
