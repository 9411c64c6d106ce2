package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/tidwall/gjson"
)

// Who may not share an answer gets one of their own, whatever else is equal.
func TestStrangersAreNeverJoined(t *testing.T) {
	const addressHeader = "X-Test-Address"
	body := func(user string) string { return `{"user":"` + user + `",` + hello[1:] }
	type request struct {
		body    string
		headers []string
	}
	tests := []struct {
		name string
		a, b request
	}{
		{"addresses", request{hello, []string{addressHeader, "192.0.2.1:1"}}, request{hello, []string{addressHeader, "192.0.2.2:1"}}},
		{"users in a header", request{hello, []string{"X-User-ID", "alice"}}, request{hello, []string{"X-User-ID", "bob"}}},
		{"users in the body", request{body("alice"), nil}, request{body("bob"), nil}},
		{"tokens", request{hello, []string{"Authorization", "Bearer a"}}, request{hello, []string{"Authorization", "Bearer b"}}},
		{"tokens of one name", request{hello, []string{"X-User-ID", "alice", "Authorization", "Bearer a"}}, request{hello, []string{"X-User-ID", "alice", "Authorization", "Bearer b"}}},
		{"a name in a header and in the body", request{hello, []string{"X-User-ID", "alice"}}, request{body("alice"), nil}},
		{"sessions", request{hello, []string{"X-Session-ID", "1"}}, request{hello, []string{"X-Session-ID", "2"}}},
		{"cookies", request{hello, []string{"Cookie", "c=1"}}, request{hello, []string{"Cookie", "c=2"}}},
		{"prompts", request{hello, nil}, request{strings.Replace(hello, "hello", "hullo", 1), nil}},
		{"streaming", request{hello, nil}, request{`{"stream":true,` + hello[1:], nil}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			model := newMeteredModel()
			h := handlerFor(t, model, time.Minute)
			base := serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if a := r.Header.Get(addressHeader); a != "" {
					r.RemoteAddr = a
					r.Header.Del(addressHeader)
				}
				h.ServeHTTP(w, r)
			}))
			client := newClient(t)
			ids := make(chan string, 4) // "": none
			for _, q := range []request{tt.a, tt.b, tt.a, tt.b} {
				go func() {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/chat/completions", strings.NewReader(q.body))
					assert.NoError(t, err)
					for i := 0; i < len(q.headers); i += 2 {
						req.Header.Set(q.headers[i], q.headers[i+1])
					}
					resp, err := client.Do(req)
					if err != nil {
						ids <- ""
						return
					}
					defer resp.Body.Close()
					answer, _ := io.ReadAll(resp.Body)
					ids <- gjson.GetBytes(bytes.TrimPrefix(answer, []byte("data: ")), "id").String()
				}()
			}
			requireFollowers(t, 2) // each one's second
			close(model.let)
			count := make(map[string]int)
			for range 4 {
				count[receive(t, ids)]++
			}
			assert.NotContains(t, count, "")
			assert.Len(t, count, 2)
			assert.EqualValues(t, 2, model.runs.Load())
		})
	}
}

// Users, sessions and prompts at random, few enough that many are equal, some of whom hang
// up: no answer is ever one to another prompt or for another user.
func TestRandomCrowd(t *testing.T) {
	model := &meteredModel{demoModel: demoModel{delay: 200 * time.Microsecond}}
	bases := []string{startServer(t, model, 500*time.Millisecond), inFrontOf(t, serveTest(t, model), "sk-ours")}
	ctx, stop := context.WithTimeout(t.Context(), soakTime)
	defer stop()
	var mu sync.Mutex
	counts := make(map[string]int)
	idOf := make(map[string]string) // who and what an answer was for
	var all sync.WaitGroup
	for range 24 {
		all.Go(func() {
			client := newClient(t)
			for ctx.Err() == nil {
				c := &call{
					user:    fmt.Sprintf("user%d", rand.IntN(3)),
					session: fmt.Sprint(rand.IntN(2)),
					prompt:  fmt.Sprintf("prompt %d", rand.IntN(3)),
					stream:  rand.IntN(2) == 0,
				}
				base := bases[rand.IntN(len(bases))]
				if rand.IntN(8) == 0 {
					leave, cancel := context.WithTimeout(ctx, rand.N(5*time.Millisecond))
					if resp, err := client.Do(c.request(t, base).WithContext(leave)); err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}
					cancel()
					continue
				}
				a := c.raw(t, client, base)
				outcome := a.role
				switch a.status {
				case http.StatusOK:
					assert.NoError(t, a.err)
					assert.Contains(t, []string{"leader", "queued", "joined"}, a.role)
					text, id, complete := readAnswer(a, c.stream)
					assert.True(t, complete, a.body)
					c.text = text
					assert.True(t, c.quotes(), "%v", c)
					mu.Lock()
					work := fmt.Sprint(base, c.user, c.session, c.prompt, c.stream)
					if was, ok := idOf[id]; ok {
						assert.Equal(t, was, work, "one answer for two requests that are not equal")
					}
					idOf[id] = work
					mu.Unlock()
				case http.StatusTooManyRequests:
					outcome = "turned away"
				default:
					t.Errorf("%v: %d %s %v", c, a.status, a.body, a.err)
				}
				mu.Lock()
				counts[outcome]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Log(counts)
	for _, role := range []string{"leader", "queued", "joined"} {
		assert.NotZero(t, counts[role], role)
	}
}

func readAnswer(a rawAnswer, stream bool) (text, id string, complete bool) {
	if !stream {
		answer := gjson.Parse(a.body)
		return answer.Get("choices.0.message.content").String(), answer.Get("id").String(), answer.Get("choices.0.finish_reason").String() == "stop"
	}
	body, complete := strings.CutSuffix(a.body, "data: [DONE]\n\n")
	for event := range strings.SplitSeq(body, "\n\n") {
		chunk := gjson.Parse(strings.TrimPrefix(event, "data: "))
		text += chunk.Get("choices.0.delta.content").String()
		if id == "" {
			id = chunk.Get("id").String()
		}
		complete = complete && (event == "" || chunk.Get("id").String() == id)
	}
	return text, id, complete
}
