package keyfuncs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"

	"github.com/reqlock/reqlock/keyfuncs"
)

// One request at a time in each session of each user. The handler is wrapped
// where it is registered with the mux, so that the path value is known.
func ExampleJoin() {
	key := keyfuncs.Join(keyfuncs.Header("X-User-ID"), keyfuncs.PathValue("session"))

	mux := http.NewServeMux()
	mux.HandleFunc("POST /sessions/{session}/messages", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(key(r))
	})

	r := httptest.NewRequest("POST", "/sessions/s1/messages", nil)
	r.Header.Set("X-User-ID", "u1")
	mux.ServeHTTP(httptest.NewRecorder(), r)

	r = httptest.NewRequest("POST", "/sessions/c/messages", nil)
	r.Header.Set("X-User-ID", "a:b") // cannot pass for user "a" with session "b:c"
	mux.ServeHTTP(httptest.NewRecorder(), r)

	// Output:
	// u1:s1 <nil>
	// a%3Ab:c <nil>
}

// Signed-in users by their id, programs by their token, and each told apart
// from the other: no token can be made that passes for a user.
func ExampleFirstOf() {
	key := keyfuncs.FirstOf(
		keyfuncs.Join(keyfuncs.Const("user"), keyfuncs.Header("X-User-ID")),
		keyfuncs.Join(keyfuncs.Const("token"), keyfuncs.Bearer),
	)

	r := httptest.NewRequest("POST", "/", nil)
	_, err := key(r)
	fmt.Println(errors.Is(err, keyfuncs.ErrMissing), err)

	r.Header.Set("Authorization", "Bearer s3cret")
	fmt.Println(key(r))

	r.Header.Set("X-User-ID", "u1")
	fmt.Println(key(r))

	// Output:
	// true keyfuncs: header "X-User-ID": missing; bearer token: missing
	// token:1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0 <nil>
	// user:u1 <nil>
}

// The order that must not be paid for twice at once is named in the body,
// which the handler still reads from its first byte.
func ExampleJSON() {
	key := keyfuncs.Join(keyfuncs.Header("X-User-ID"), keyfuncs.JSON("order.id"))

	pay := func(body string) {
		r := httptest.NewRequest("POST", "/payments", strings.NewReader(body))
		r.Header.Set("X-User-ID", "u1")
		k, err := key(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		whole, _ := io.ReadAll(r.Body)
		fmt.Printf("%s %s\n", k, whole)
	}
	pay(`{"order": {"id": 42}}`)
	pay(`{"order": {}}`)
	pay(`{"order": {"id": 42, "id": 43}}`) // which one would the handler take?

	// Output:
	// u1:42 {"order": {"id": 42}}
	// keyfuncs: JSON "order.id": missing
	// keyfuncs: JSON "order.id": malformed: a key is given more than once
}

// A sign-up has no user yet. Its two proxies append to X-Forwarded-For; what
// the client has sent there itself is to the left of that, and does not count.
func ExampleRemoteIP() {
	signUp := keyfuncs.Join(
		keyfuncs.Const("sign-up"),
		keyfuncs.RemoteIP(netip.MustParsePrefix("10.1.0.0/24")), // our proxies, and nobody else
	)

	r := httptest.NewRequest("POST", "/sign-up", nil)
	r.RemoteAddr = "10.1.0.7:49152"
	r.Header.Set("X-Forwarded-For", "127.0.0.1, 203.0.113.9, 10.1.0.8")
	fmt.Println(signUp(r))

	r.RemoteAddr = "198.51.100.1:49152" // not through our proxies
	fmt.Println(signUp(r))

	// Output:
	// sign-up:203.0.113.9 <nil>
	// sign-up:198.51.100.1 <nil>
}

type userKey struct{}

// The user as an authenticating handler, earlier in the chain, has found it.
// Any function with the signature will do.
func ExampleFunc() {
	user := func(r *http.Request) (string, error) {
		id, ok := r.Context().Value(userKey{}).(string)
		if !ok {
			return "", &keyfuncs.Error{Source: "user", Err: keyfuncs.ErrMissing, Detail: "sign in first"}
		}
		return strings.ToLower(id), nil // our users are the same in any case
	}
	key := keyfuncs.Join(user, keyfuncs.Query("cart"))

	r := httptest.NewRequest("POST", "/?cart=7", nil)
	fmt.Println(key(r))
	r = r.WithContext(context.WithValue(r.Context(), userKey{}, "Ann"))
	fmt.Println(key(r))

	// Output:
	//  keyfuncs: user: missing: sign in first
	// ann:7 <nil>
}
