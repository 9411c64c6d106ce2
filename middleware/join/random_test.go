package join_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/httplock"
)

// No answer is another prompt's or another user's, and no two handlers of a user run at
// once, whatever clients leave when.
func TestRandomClients(t *testing.T) {
	const users, prompts, tokens = 3, 4, 10
	var running [users]atomic.Int32
	var runs atomic.Int32
	handler := func(w http.ResponseWriter, r *http.Request) {
		var user int
		_, _ = fmt.Sscan(r.Header.Get("X-User"), &user)
		assert.EqualValues(t, 1, running[user].Add(1), "handlers of a user at once")
		defer running[user].Add(-1)
		prompt, _ := io.ReadAll(r.Body)
		run := runs.Add(1)
		for i := range tokens {
			_, _ = fmt.Fprintf(w, "%d %s %d %d\n", user, prompt, run, i)
			if run%3 > 0 {
				_ = http.NewResponseController(w).Flush()
			}
			select {
			case <-time.After(time.Duration(run%4) * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
	}
	s := serve(t, setup{handler: handler})
	other := startServer(t, setup{http2: true}, httplock.Wrap(s.guard)(http.HandlerFunc(handler)))
	var all sync.WaitGroup
	var whole, joined atomic.Int32
	end := time.Now().Add(randomTime)
	for i := range 24 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for time.Now().Before(end) && !t.Failed() {
				ctx, hangUp := context.WithCancel(t.Context())
				user, prompt := random.IntN(users), fmt.Sprint("prompt", random.IntN(prompts))
				server := s.Server
				if random.IntN(2) == 0 {
					server = other
				}
				r, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(prompt))
				r.Header.Set("X-User", fmt.Sprint(user))
				leaves := random.IntN(3) == 0
				if leaves {
					time.AfterFunc(time.Duration(random.IntN(20_000))*time.Microsecond, hangUp)
				}
				resp, err := server.Client().Do(r)
				if err == nil {
					var body []byte
					body, err = io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					checkAnswer(t, string(body), fmt.Sprintf("%d %s ", user, prompt), tokens, err == nil)
				}
				if !leaves {
					assert.NoError(t, err)
				}
				if err == nil {
					whole.Add(1)
					if resp.Header.Get("X-Reqlock") == "joined" {
						joined.Add(1)
					}
				}
				hangUp()
			}
		})
	}
	all.Wait()
	s.watched(0)
	t.Logf("%d whole answers, %d of them joined, by %d runs", whole.Load(), joined.Load(), runs.Load())
	require.NotZero(t, joined.Load())
}

// checkAnswer requires the tokens of one run, in order, and all of them where it is whole.
func checkAnswer(t *testing.T, body, of string, tokens int, whole bool) {
	lines := strings.SplitAfter(body, "\n")
	lines = lines[:len(lines)-1]
	if whole {
		assert.Len(t, lines, tokens)
	}
	var run string
	for i, line := range lines {
		rest, ok := strings.CutPrefix(line, of)
		if !assert.True(t, ok, "%q in an answer to %q", line, of) {
			return
		}
		number, _, _ := strings.Cut(rest, " ")
		if run == "" {
			run = number
		}
		assert.Equal(t, fmt.Sprintf("%s %d\n", run, i), rest)
	}
}
