package keyfuncs_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/reqlock/reqlock/keyfuncs"
)

func fromOffice(user, session string) *http.Request {
	r := httptest.NewRequest("POST", "/messages?session="+session, nil)
	r.RemoteAddr = "203.0.113.9:49152" // one address for the whole office
	r.Header.Set("X-User-ID", user)
	return r
}

// Keys that are too wide, or that the client can choose, beside one that is
// right. Ann and Bob work in the same office; Eve would like two answers at
// once, or Ann to get none.
func ExampleFunc_incorrect() {
	for _, c := range []struct {
		name string
		key  keyfuncs.Func
	}{
		// WRONG: a key for all. Everybody waits for everybody.
		{"global", keyfuncs.Const("chat")},
		// WRONG: Ann waits for Bob, whom she only shares a NAT with. And who
		// changes networks runs beside himself.
		{"address", keyfuncs.RemoteIP()},
		// WRONG: the client names the session, so Eve blocks Ann by naming hers.
		{"session alone", keyfuncs.Query("session")},
		// RIGHT: the authenticated user, and what must not run twice.
		{"user and session", keyfuncs.Join(keyfuncs.Header("X-User-ID"), keyfuncs.Query("session"))},
	} {
		ann, _ := c.key(fromOffice("ann", "s1"))
		bob, _ := c.key(fromOffice("bob", "s2"))
		eve, _ := c.key(fromOffice("eve", "s1"))
		fmt.Printf("%-17s ann waits for bob: %-6t ann waits for eve: %t\n", c.name+",", ann == bob, ann == eve)
	}

	// Output:
	// global,           ann waits for bob: true   ann waits for eve: true
	// address,          ann waits for bob: true   ann waits for eve: true
	// session alone,    ann waits for bob: false  ann waits for eve: true
	// user and session, ann waits for bob: false  ann waits for eve: false
}
