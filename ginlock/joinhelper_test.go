package ginlock_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/ginlock"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// A gate holds back the first handler that comes to it until others follow that.
type gate struct {
	runs   atomic.Int32
	inside chan struct{} // closed when a handler runs
	open   chan struct{}
}

func newGate() *gate { return &gate{inside: make(chan struct{}), open: make(chan struct{})} }

// pass is the first handler after the guard.
func (g *gate) pass(*gin.Context) {
	if g.runs.Add(1) == 1 {
		close(g.inside)
		<-g.open
	}
}

// awaitFollowers waits until so many requests follow another one. Nothing that they do
// until that answers is to be seen from outside.
func awaitFollowers(t *testing.T, n int) {
	t.Helper()
	awaitFrames(t, "join.(*viewer).follow(", n)
}

// awaitFrames waits until a function is called so many times at the moment.
func awaitFrames(t *testing.T, function string, n int) {
	t.Helper()
	stacks := make([]byte, 4<<20)
	require.Eventually(t, func() bool {
		return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte(function)) == n
	}, 10*time.Second, time.Millisecond, function)
}

// An answer is what a client got.
type answer struct {
	status int
	header http.Header // without what tells responses apart
	role   string
	body   string
	length int64
	err    error // while reading
}

func ask(t *testing.T, srv *httptest.Server, r *http.Request) (a answer) {
	t.Helper()
	client := *srv.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	a = answer{resp.StatusCode, resp.Header, resp.Header.Get("X-Reqlock"), string(body), resp.ContentLength, err}
	for _, name := range []string{"Date", "X-Reqlock", "X-Own"} {
		a.header.Del(name)
	}
	for name, lines := range resp.Trailer {
		a.header["Trailer:"+name] = lines
	}
	return a
}

// askTogether sends requests that are in flight at the same time. The first one leads.
func askTogether(t *testing.T, srv *httptest.Server, g *gate, n int, build func(i int) *http.Request) []answer {
	t.Helper()
	answers := make([]answer, n)
	open := sync.OnceFunc(func() { close(g.open) })
	defer open()
	var all sync.WaitGroup
	all.Go(func() { answers[0] = ask(t, srv, build(0)) })
	<-g.inside
	for i := range n - 1 {
		all.Go(func() { answers[i+1] = ask(t, srv, build(i+1)) })
	}
	awaitFollowers(t, n-1)
	open()
	all.Wait()
	return answers
}

// joining is a guard that has equal requests share.
func joining(opts ...middleware.Option) gin.HandlerFunc {
	return ginlock.New(memlock.New(), user, append([]middleware.Option{middleware.WithJoin(join.New(nil))}, opts...)...)
}

// requireRoles fails unless the first has led and the others have joined.
func requireRoles(t *testing.T, answers []answer) {
	t.Helper()
	for i, a := range answers {
		want := "joined"
		if i == 0 {
			want = "leader"
		}
		require.Equal(t, want, a.role, i)
	}
}
