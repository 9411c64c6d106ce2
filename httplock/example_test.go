package httplock_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

func ExampleNew() {
	locks := memlock.New() // or redislock.New, to exclude other processes too

	chat := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, _ := lock.From(r.Context())
		fmt.Fprintf(w, "the only one to work on %s\n", lease.Key())
	})
	key := keyfuncs.Join(keyfuncs.Header("X-User-ID"), keyfuncs.PathValue("session"))
	guard := httplock.New(locks, key, middleware.WithWait(3*time.Second))

	// The guard wraps the handler and not the mux: only then is {session} known.
	mux := http.NewServeMux()
	mux.Handle("POST /sessions/{session}/messages", guard(chat))

	r := httptest.NewRequest(http.MethodPost, "/sessions/s1/messages", nil)
	r.Header.Set("X-User-ID", "u1")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Print(w.Body)
	// Output: the only one to work on u1:s1
}

// One Guard for two uses: the handler it guards and one that interrupts that.
func ExampleWrap() {
	key := keyfuncs.PathValue("session")
	guard, err := middleware.NewGuard(memlock.New(), key)
	if err != nil {
		fmt.Println(err) // every problem with the arguments
		return
	}
	started := make(chan struct{})
	chat := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(started)
		<-r.Context().Done() // as a call to a model with this context would return
	})
	stop := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, err := key(r)
		if err != nil {
			http.Error(w, "no session", http.StatusBadRequest)
			return
		}
		stopped, err := guard.Interrupt(r.Context(), session)
		fmt.Fprintln(w, "stopped:", stopped, err)
	})
	mux := http.NewServeMux()
	mux.Handle("POST /sessions/{session}/messages", httplock.Wrap(guard)(chat))
	mux.Handle("POST /sessions/{session}/stop", stop)

	stopped := httptest.NewRecorder()
	var wg sync.WaitGroup
	wg.Go(func() {
		<-started
		mux.ServeHTTP(stopped, httptest.NewRequest(http.MethodPost, "/sessions/s1/stop", nil))
	})
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/sessions/s1/messages", nil))
	wg.Wait()
	fmt.Print(stopped.Body)
	fmt.Println(w.Code, w.Body)
	// Output:
	// stopped: true <nil>
	// 409 {"type":"about:blank","title":"Conflict","status":409,"detail":"the request was interrupted","reason":"interrupted"}
}
