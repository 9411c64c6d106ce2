package keyfuncs_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reqlock/reqlock/keyfuncs"
)

func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestHeader(t *testing.T) {
	for name, c := range map[string]struct {
		header []string
		want   want
	}{
		"given":            {[]string{"X-User-ID", "u1"}, is("u1")},
		"in another case":  {[]string{"x-uSER-id", "u1"}, is("u1")},
		"twice the same":   {[]string{"X-User-ID", "u1", "X-User-ID", "u1"}, is("u1")},
		"absent":           {nil, missing(`keyfuncs: header "X-User-ID": missing`)},
		"empty":            {[]string{"X-User-ID", ""}, missing(`keyfuncs: header "X-User-ID": missing`)},
		"two values":       {[]string{"X-User-ID", "u1", "X-User-ID", "u2"}, malformed(`keyfuncs: header "X-User-ID": malformed: given more than once`)},
		"a value and none": {[]string{"X-User-ID", "", "X-User-ID", "u2"}, malformed(`keyfuncs: header "X-User-ID": malformed: given more than once`)},
	} {
		t.Run(name, func(t *testing.T) { c.want.check(t, keyfuncs.Header("X-User-ID"), request(c.header...)) })
	}
}

func TestHeader_SecretsAreHashed(t *testing.T) {
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie", "cookie"} {
		is(hashOf("Basic dTpw")).check(t, keyfuncs.Header(name), request(name, "Basic dTpw"))
	}
	missing(`keyfuncs: header "Authorization": missing`).check(t, keyfuncs.Header("Authorization"), request())
}

func TestHost(t *testing.T) {
	for sent, want := range map[string]want{
		"example.com":       is("example.com"),
		"EXAMPLE.com:8080":  is("example.com"),
		"example.com.":      is("example.com"),
		"example.com.:443":  is("example.com"),
		"[2001:DB8::1]:443": is("2001:db8::1"),
		"[2001:db8::1]":     is("2001:db8::1"),
		"":                  missing(`keyfuncs: header "Host": missing`),
		":80":               missing(`keyfuncs: header "Host": missing`),
	} {
		r := request()
		r.Host = sent
		want.check(t, keyfuncs.Host, r)
		want.check(t, keyfuncs.Header("host"), r)
	}
}

func TestBearer(t *testing.T) {
	const token = "s3cret"
	none := missing("keyfuncs: bearer token: missing")
	for name, c := range map[string]struct {
		header []string
		want   want
	}{
		"given":           {[]string{"Authorization", "Bearer " + token}, is(hashOf(token))},
		"in another case": {[]string{"authorization", "bEARER " + token}, is(hashOf(token))},
		"more spaces":     {[]string{"Authorization", "Bearer  \t" + token + " "}, is(hashOf(token))},
		"a tab":           {[]string{"Authorization", "Bearer\t" + token}, is(hashOf(token))},
		"absent":          {nil, none},
		"no value":        {[]string{"Authorization", ""}, none},
		"no token":        {[]string{"Authorization", "Bearer"}, none},
		"empty token":     {[]string{"Authorization", "Bearer  "}, none},
		"another scheme":  {[]string{"Authorization", "Basic " + token}, none},
		"longer scheme":   {[]string{"Authorization", "BearerX " + token}, none},
		"token alone":     {[]string{"Authorization", token}, none},
		"two words":       {[]string{"Authorization", "Bearer " + token + " x"}, malformed("keyfuncs: bearer token: malformed: holds a space")},
		"two tokens":      {[]string{"Authorization", "Bearer " + token, "Authorization", "Bearer x"}, malformed(`keyfuncs: header "Authorization": malformed: given more than once`)},
	} {
		t.Run(name, func(t *testing.T) { c.want.check(t, keyfuncs.Bearer, request(c.header...)) })
	}
}

func TestCookie(t *testing.T) {
	for name, c := range map[string]struct {
		header []string
		want   want
	}{
		"given":          {[]string{"Cookie", "a=1; sid=s1"}, is(hashOf("s1"))},
		"quoted":         {[]string{"Cookie", `sid="s1"`}, is(hashOf("s1"))},
		"twice the same": {[]string{"Cookie", "sid=s1; sid=s1"}, is(hashOf("s1"))},
		"absent":         {[]string{"Cookie", "SID=s1"}, missing(`keyfuncs: cookie "sid": missing`)},
		"empty":          {[]string{"Cookie", "sid="}, missing(`keyfuncs: cookie "sid": missing`)},
		"two values":     {[]string{"Cookie", "sid=s1; sid=s2"}, malformed(`keyfuncs: cookie "sid": malformed: given more than once`)},
		"two lines":      {[]string{"Cookie", "sid=s1", "Cookie", "sid=s2"}, malformed(`keyfuncs: cookie "sid": malformed: given more than once`)},
	} {
		t.Run(name, func(t *testing.T) { c.want.check(t, keyfuncs.Cookie("sid"), request(c.header...)) })
	}
}

// Errors are shown to clients and land in logs: whatever is wrong with a
// value, it is not quoted.
func TestErrorsNeverShowTheValue(t *testing.T) {
	const secret = "hunter2"
	r := request("X-User-ID", secret, "X-User-ID", secret+"2", "Authorization", "Bearer "+secret+" x",
		"Cookie", "sid="+secret+"; sid=x", "X-Forwarded-For", secret)
	r.RemoteAddr = "10.0.0.1:1"
	r.URL.RawQuery = "q=" + secret + "&q=x"
	for _, f := range []keyfuncs.Func{
		keyfuncs.Header("X-User-ID"), keyfuncs.Bearer, keyfuncs.Cookie("sid"), keyfuncs.Query("q"), keyfuncs.RemoteIP(prefix("10.0.0.0/8")),
	} {
		_, err := f(r)
		assert.ErrorIs(t, err, keyfuncs.ErrMalformed)
		assert.False(t, strings.Contains(err.Error(), secret), err)
	}
}
