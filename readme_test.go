package reqlock_test

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/ginlock"
	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// The functions below are the README's code, to the letter: TestReadme sees to
// that, and the compiler to the rest.

func open(use func(lock.Locker)) error {
	// import "github.com/redis/go-redis/v9"
	// import "github.com/reqlock/reqlock/middleware/redislock"
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	locks, err := redislock.New(rdb)
	if err != nil {
		return err
	}
	defer locks.Close()
	use(locks)
	return nil
}

func clients() (*redis.Client, *redis.ClusterClient, []redis.UniversalClient) {
	// import "github.com/redis/go-redis/v9"
	sentinel := redis.NewFailoverClient(&redis.FailoverOptions{ // for redislock.New
		MasterName: "mymaster", SentinelAddrs: []string{"s1:26379", "s2:26379", "s3:26379"},
		DialTimeout: time.Second, ReadTimeout: time.Second,
	})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{ // for redislock.New
		Addrs: []string{"n1:6379", "n2:6379", "n3:6379"},
	})
	masters := []redis.UniversalClient{ // for redislock.NewQuorum
		redis.NewClient(&redis.Options{Addr: "m1:6379"}),
		redis.NewClient(&redis.Options{Addr: "m2:6379"}),
		redis.NewClient(&redis.Options{Addr: "m3:6379"}),
	}
	return sentinel, cluster, masters
}

func netHTTP(mux *http.ServeMux, locks lock.Locker, chat func(http.ResponseWriter, *http.Request)) {
	// import "github.com/reqlock/reqlock/httplock"
	// import "github.com/reqlock/reqlock/keyfuncs"
	// import "github.com/reqlock/reqlock/middleware"
	user := func(r *http.Request) (string, error) { return userOf(r.Context()), nil } // userOf is yours; "" is answered with 400
	key := keyfuncs.Join(user, keyfuncs.PathValue("session"))
	guard := httplock.New(locks, key, middleware.WithWait(3*time.Second))
	mux.Handle("POST /sessions/{session}/messages", guard(http.HandlerFunc(chat)))
}

func inGin(router *gin.Engine, locks lock.Locker, authenticate, chat gin.HandlerFunc) {
	// import "github.com/reqlock/reqlock/ginlock"
	key := keyfuncs.Join(ginlock.Value("user"), keyfuncs.PathValue("session"))
	chats := router.Group("/sessions/:session", authenticate)
	chats.Use(ginlock.New(locks, key, middleware.WithWait(3*time.Second)))
	chats.POST("/messages", chat)
}

func fenced(r *http.Request, order string, store interface {
	Save(ctx context.Context, order string, fence uint64) error
}) error {
	// import "github.com/reqlock/reqlock/middleware/lock"
	lease, _ := lock.From(r.Context())
	err := store.Save(r.Context(), order, lease.Fence()) // refuses a fence below one it has seen
	return err
}

func withFallback(locks lock.Locker, key keyfuncs.Func) func(http.Handler) http.Handler {
	// import "github.com/reqlock/reqlock/middleware/memlock"
	local := memlock.New() // one for all guards of a Locker
	guard := httplock.New(locks, key, middleware.WithFallback(local))
	return guard
}

func withJoin(locks lock.Locker, key keyfuncs.Func) func(http.Handler) http.Handler {
	// import "github.com/reqlock/reqlock/middleware/join"
	sharing := join.New(nil) // must be nil for now
	guard := httplock.New(locks, key, middleware.WithJoin(sharing))
	return guard
}

func userOf(context.Context) string { return "" }

var _ = []any{open, clients, netHTTP, inGin, fenced, withFallback, withJoin}

func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	source, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	compiled := strings.ReplaceAll(string(source), "\n\t", "\n")

	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.Len(t, blocks, 7)
	for _, block := range blocks {
		assert.Contains(t, compiled, "\n"+block[1], "the README's code is not what is compiled here")
	}

	// Every file that it points to is there.
	for _, link := range regexp.MustCompile(`\]\(([^):#]+)\)`).FindAllStringSubmatch(string(readme), -1) {
		_, err := os.Stat(link[1])
		assert.NoError(t, err)
	}
}
