package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
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

// While Redis is away, this process takes turns by itself.
func ExampleWithFallback() {
	locks := away{}        // a redislock, say
	local := memlock.New() // one for all guards on locks
	key := keyfuncs.Path   // and a key of yours
	fenced := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, _ := lock.From(r.Context())
		fmt.Println("runs, with a fence:", lease.Fence() > 0)
	})
	guard, err := middleware.NewGuard(locks, key, middleware.WithFallback(local), middleware.WithObserver(func(context.Context, lock.Event) {}))
	if err != nil {
		fmt.Println(err)
		return
	}
	guard.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/orders/7", nil), fenced)
	// Output: runs, with a fence: true
}

// away is a Locker that cannot be asked.
type away struct{}

func (away) Acquire(context.Context, string, lock.Options) (lock.Lease, error) {
	return nil, lock.ErrUnavailable
}
func (away) Interrupt(context.Context, string) (bool, error) { return false, lock.ErrUnavailable }

type accountKey struct{}

// A user that authentication has put into the context tells requests apart only where the
// key or the fingerprint has it. This one adds it to the default.
func ExampleWithFingerprint() {
	account := func(r *http.Request) (string, error) {
		name, _ := r.Context().Value(accountKey{}).(string)
		if name == "" {
			return "", keyfuncs.ErrMissing // answered with 400; another error with 500
		}
		return name, nil
	}
	fingerprint := func(r *http.Request, body []byte) (string, error) {
		name, err := account(r)
		if err != nil {
			return "", err
		}
		rest, err := middleware.Fingerprint(r, body)
		return name + " " + rest, err
	}
	guard := httplock.New(memlock.New(), keyfuncs.Path, middleware.WithJoin(join.New(nil)), middleware.WithFingerprint(fingerprint))
	report := guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _ := account(r)
		fmt.Fprintf(w, "the report of %s", name)
	}))

	r := httptest.NewRequest(http.MethodGet, "/report", nil)
	for _, name := range []string{"ann", ""} {
		w := httptest.NewRecorder()
		report.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accountKey{}, name)))
		fmt.Println(w.Code, w.Header().Get(middleware.RoleHeader))
	}
	// Output:
	// 200 leader
	// 400
}
