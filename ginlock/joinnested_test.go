package ginlock_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/ginlock"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// Of two guards, the outer one shares, and says what a request was.
func TestNestedGuardsJoin(t *testing.T) {
	for _, tt := range []struct {
		name  string
		inner lock.Locker // nil: the outer one's
	}{{"same Locker", nil}, {"another Locker", memlock.New()}} {
		for _, private := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/private=%t", tt.name, private), func(t *testing.T) {
				g := newGate()
				sharer := middleware.WithJoin(join.New(nil))
				locks := lock.Locker(memlock.New())
				inner := tt.inner
				if inner == nil {
					inner = locks
				}
				router := gin.New()
				outside := router.Group("/", ginlock.New(locks, user, sharer, middleware.WithWait(30*time.Second)))
				outside.Group("/", ginlock.New(inner, user, sharer, middleware.WithWait(30*time.Second))).
					POST("/", g.pass, func(c *gin.Context) {
						if private {
							c.SetCookie("a", "b", 1, "/", "", false, false)
						}
						c.String(http.StatusOK, "run")
					})
				srv := serve(t, false, router)
				start := time.Now()
				answers := askTogether(t, srv, g, 4, func(int) *http.Request { return request(t, "POST", srv.URL, "") })
				require.Less(t, time.Since(start), 10*time.Second)
				if private {
					require.EqualValues(t, 4, g.runs.Load())
					require.Equal(t, "leader", answers[0].role)
				} else {
					requireRoles(t, answers)
				}
				for _, a := range answers {
					require.Equal(t, "run", a.body)
				}
			})
		}
	}
}

// A request that runs for itself in the outer guard does not follow, in the inner one, a
// request that waits for the outer one's key.
func TestNestedGuardsDoNotWaitForEachOther(t *testing.T) {
	g := newGate()
	sharer, wait := middleware.WithJoin(join.New(nil)), middleware.WithWait(20*time.Second)
	between, goOn := make(chan struct{}, 9), make(chan struct{})
	router := gin.New()
	router.POST("/", ginlock.New(memlock.New(), user, sharer, wait), g.pass, func(c *gin.Context) {
		if g.runs.Load() > 1 {
			between <- struct{}{}
			<-goOn
		}
	}, ginlock.New(memlock.New(), user, sharer, wait), func(c *gin.Context) {
		c.SetCookie("for", "one", 1, "/", "", false, false)
		c.String(http.StatusOK, "run")
	})
	srv := serve(t, false, router)
	done := make(chan answer, 3)
	send := func() { done <- ask(t, srv, request(t, "POST", srv.URL, "")) }
	go send()
	<-g.inside
	go send()
	awaitFollowers(t, 1)
	close(g.open)
	<-between // the second one runs for itself
	go send()
	awaitFrames(t, "join.(*viewer).lead(", 1) // the third one waits for it
	close(goOn)
	for range 3 {
		select {
		case a := <-done:
			require.Equal(t, "run", a.body)
			require.Contains(t, []string{"leader", "queued"}, a.role)
		case <-time.After(10 * time.Second):
			require.Fail(t, "they wait for each other")
		}
	}
}
