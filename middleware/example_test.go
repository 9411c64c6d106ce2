package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// An HTML page for some denials, and the default for all others. Retry-After
// and the other headers are set already.
func ExampleWithDeny() {
	deny := func(w http.ResponseWriter, r *http.Request, d middleware.Denial) {
		if d.Reason != middleware.Busy {
			middleware.ProblemJSON(w, r, d)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(d.Status)
		fmt.Fprintf(w, "<p>Still working on your last message.")
	}
	locks := memlock.New()
	guard := httplock.New(locks, user, middleware.WithWait(0), middleware.WithDeny(deny))

	lease, err := locks.Acquire(context.Background(), "u1", lock.Options{}) // somebody is at it
	if err != nil {
		panic(err)
	}
	defer lease.Release(context.Background())
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("X-User-ID", "u1")
	w := httptest.NewRecorder()
	guard(http.NotFoundHandler()).ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("Retry-After"), w.Body)
	// Output: 429 1 <p>Still working on your last message.
}

// The clients of OpenAI's API find errors in the shape that they know.
func ExampleOpenAIErrors() {
	guard := httplock.New(memlock.New(), user, middleware.WithDeny(middleware.OpenAIErrors))
	w := httptest.NewRecorder()
	guard(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 400 {"error":{"message":"header \"X-User-ID\": missing","type":"invalid_request_error","param":null,"code":"no_key"}}
}
