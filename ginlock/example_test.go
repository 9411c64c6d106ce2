package ginlock_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/reqlock/reqlock/ginlock"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

func ExampleNew() {
	locks := memlock.New() // or redislock.New, to exclude other processes too

	auth := func(c *gin.Context) { c.Set("user", "u1") } // whoever your tokens say
	key := keyfuncs.Join(ginlock.Value("user"), keyfuncs.PathValue("session"))

	router := gin.New()
	chats := router.Group("/sessions/:session", auth)
	chats.Use(ginlock.New(locks, key, middleware.WithWait(3*time.Second)))
	chats.POST("/messages", func(c *gin.Context) {
		lease, _ := lock.From(c.Request.Context())
		c.String(http.StatusOK, "the only one to work on %s", lease.Key())
	})

	w := httptest.NewRecorder()
	router.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/sessions/s1/messages", nil))
	fmt.Println(w.Body)
	// Output: the only one to work on u1:s1
}

// Two users of one room may send the same words. What tells them apart is neither in the
// key nor in a header, so it has to be in the fingerprint: else they could share a response.
func ExampleNew_join() {
	auth := func(c *gin.Context) { c.Set("user", "u1") } // whoever your tokens say
	byUser := func(r *http.Request, body []byte) (string, error) {
		user, err := ginlock.Value("user")(r)
		if err != nil {
			return "", err
		}
		rest, err := middleware.Fingerprint(r, body)
		return user + " " + rest, err
	}

	router := gin.New()
	rooms := router.Group("/rooms/:room", auth)
	rooms.Use(ginlock.New(memlock.New(), keyfuncs.PathValue("room"),
		middleware.WithJoin(join.New(nil)),
		middleware.WithFingerprint(byUser)))
	rooms.POST("/messages", func(c *gin.Context) {
		c.String(http.StatusOK, "an answer to %s", c.GetString("user"))
	})

	w := httptest.NewRecorder()
	router.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/rooms/r1/messages", nil))
	fmt.Println(w.Header().Get(middleware.RoleHeader), w.Body)
	// Output: leader an answer to u1
}

// A handler outside of the guard derives the key of the guarded one, to
// interrupt it.
func ExampleRequest() {
	key := keyfuncs.PathValue("session")
	guard, err := middleware.NewGuard(memlock.New(), key)
	if err != nil {
		fmt.Println(err) // every problem with the arguments
		return
	}
	router := gin.New()
	router.POST("/sessions/:session/stop", func(c *gin.Context) {
		session, err := key(ginlock.Request(c))
		if err != nil {
			c.Status(http.StatusBadRequest)
			return
		}
		stopped, err := guard.Interrupt(c.Request.Context(), session)
		c.String(http.StatusOK, "%s was running: %t %v", session, stopped, err)
	})

	w := httptest.NewRecorder()
	router.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/sessions/s1/stop", nil))
	fmt.Println(w.Body)
	// Output: s1 was running: false <nil>
}
