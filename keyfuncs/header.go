package keyfuncs

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// Header returns a Func with the value of a header, its name in any case.
// Several lines with different values are ErrMalformed.
//
// A client can send any header: use one that a gateway in front of the service
// sets and strips from what clients send.
//
// Header("Host") is [Host], since net/http keeps that one elsewhere. The values
// of Authorization, Proxy-Authorization and Cookie are hashed (see [Hash]),
// since they are secrets; wrap a header of your own that holds one in Hash.
// Header panics where the name is empty.
func Header(name string) Func {
	mustName("Header", name)
	canonical := http.CanonicalHeaderKey(name)
	f := func(r *http.Request) (string, error) {
		return one("header", name, r.Header[canonical])
	}
	switch canonical {
	case "Host":
		return Host
	case "Authorization", "Proxy-Authorization", "Cookie":
		return Hash(f)
	}
	return f
}

// Host is the host name that the request was sent to: in lower case, without
// the port and without a final dot, because a client may write one host in all
// these ways. It tells tenants apart; a service must know its hosts, as a
// client can send any.
func Host(r *http.Request) (string, error) {
	u := url.URL{Host: r.Host}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if host == "" {
		return "", missing("header", "Host")
	}
	return host, nil
}

// Bearer is the token of the header "Authorization: Bearer …", hashed (see
// [Hash]). The scheme may be in any case. A request without the header, with
// an empty token or with another scheme is ErrMissing; different Authorization
// lines, or a token with a space in it, are ErrMalformed.
//
// It only reads the token, so authenticate first: an unchecked token is a key
// that the client chooses freely.
func Bearer(r *http.Request) (string, error) { return hashedBearer(r) }

var hashedBearer = Hash(func(r *http.Request) (string, error) {
	const source = "bearer token"
	value, err := one("header", "Authorization", r.Header["Authorization"])
	if err != nil {
		if errors.Is(err, ErrMissing) {
			return "", missing(source, "")
		}
		return "", err
	}
	scheme, token := value, ""
	if i := strings.IndexAny(value, " \t"); i >= 0 {
		scheme, token = value[:i], strings.Trim(value[i:], " \t")
	}
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", missing(source, "")
	}
	if strings.ContainsAny(token, " \t") {
		return "", malformed(source, "", "holds a space")
	}
	return token, nil
})

// Cookie returns a Func with the value of a cookie, hashed (see [Hash]), since
// cookies tend to be secrets. Several cookies of the name with different
// values, as a sibling domain can set them, are ErrMalformed. Cookie panics
// where the name is empty.
func Cookie(name string) Func {
	mustName("Cookie", name)
	return Hash(func(r *http.Request) (string, error) {
		var values []string
		for _, c := range r.CookiesNamed(name) {
			values = append(values, c.Value)
		}
		return one("cookie", name, values)
	})
}
