package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// handlerFor is a whole server but for Redis.
func handlerFor(t *testing.T, b backend, wait time.Duration) http.Handler {
	t.Helper()
	return handlerWith(t, memlock.New(), b, wait)
}

func handlerWith(t *testing.T, locks lock.Locker, b backend, wait time.Duration) http.Handler {
	t.Helper()
	page, err := newPage(wait, &outage{fallback: fallbackNone})
	require.NoError(t, err)
	return newHandler(b, newGuard(locks, wait, fallbackNone), page)
}

func startServer(t *testing.T, b backend, wait time.Duration) string {
	t.Helper()
	return serveTest(t, handlerFor(t, b, wait))
}

func do(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const hello = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`

func TestErrorsAreOpenAIs(t *testing.T) {
	h := handlerFor(t, demoModel{}, 0)
	tests := []struct {
		method, path, body string
		status             int
		code, param        string
	}{
		{"GET", "/v1/nothing", "", 404, "unknown_url", ""},
		{"GET", "/v1/chat/completions", "", 405, "method_not_supported", ""},
		{"POST", "/v1/chat/completions/", hello, 404, "unknown_url", ""},
		{"POST", "/v1/chat/completions", ``, 400, "", ""},
		{"POST", "/v1/chat/completions", `{"model":`, 400, "", ""},
		{"POST", "/v1/chat/completions", `[1]`, 400, "", ""},
		{"POST", "/v1/chat/completions", `{"messages":[{}]}`, 400, "", "model"},
		{"POST", "/v1/chat/completions", `{"model":"m"}`, 400, "", "messages"},
		{"POST", "/v1/chat/completions", `{"model":"m","messages":"hello"}`, 400, "", "messages"},
		{"POST", "/v1/chat/completions", `{"model":"m","n":2,"messages":[{}]}`, 400, "", "n"},
		{"POST", "/v1/chat/completions", `{"model":"m","max_tokens":0,"messages":[{}]}`, 400, "", "max_completion_tokens"},
		{"POST", "/v1/chat/completions", `{"user":"a","user":"b",` + hello[1:], 400, "no_key", ""},
		{"POST", "/v1/chat/completions", `{"metadata":{"session_id":[]},` + hello[1:], 400, "no_key", ""},
		{"POST", "/v1/chat/completions", `{"x":"` + strings.Repeat("x", maxBody) + `"}`, 413, "body_too_large", ""},
	}
	for _, tt := range tests {
		t.Run(tt.method+tt.path+tt.body[:min(len(tt.body), 40)], func(t *testing.T) {
			w := do(h, tt.method, tt.path, tt.body)
			require.Equal(t, tt.status, w.Code, w.Body)
			assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
			requireError(t, w.Body.String(), "invalid_request_error", tt.code)
			assert.Equal(t, tt.param, gjson.Get(w.Body.String(), "error.param").String())
		})
	}
	// Those that are refused ask for no turn.
	assert.Equal(t, http.StatusOK, do(h, "POST", "/v1/chat/completions", hello).Code)
}

func TestAnswerWhole(t *testing.T) {
	before := time.Now().Unix()
	w := do(handlerFor(t, demoModel{}, 0), "POST", "/v1/chat/completions", `{"model":"gpt-4o","user":"bob","messages":[
		{"role":"system","content":"be brief"},
		{"role":"user","content":[{"type":"text","text":"good "},{"type":"image_url","image_url":{"url":"data:"}},{"type":"text","text":"morning"}]},
		{"role":"assistant","content":null}]}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	answer := gjson.ParseBytes(w.Body.Bytes())
	assert.Regexp(t, `^chatcmpl-\w+$`, answer.Get("id").String())
	assert.Equal(t, "chat.completion", answer.Get("object").String())
	assert.GreaterOrEqual(t, answer.Get("created").Int(), before)
	assert.Equal(t, "gpt-4o", answer.Get("model").String())
	assert.Equal(t, "assistant", answer.Get("choices.0.message.role").String())
	assert.Contains(t, answer.Get("choices.0.message.content").String(), "Hello bob, you said: “good morning”.")
	assert.Equal(t, "stop", answer.Get("choices.0.finish_reason").String())
	assert.EqualValues(t, 4, answer.Get("usage.prompt_tokens").Int())
	assert.InDelta(t, 35, answer.Get("usage.completion_tokens").Int(), 25)
	assert.Equal(t, 4+answer.Get("usage.completion_tokens").Int(), answer.Get("usage.total_tokens").Int())
}

func TestMaxTokens(t *testing.T) {
	for _, field := range []string{"max_tokens", "max_completion_tokens"} {
		w := do(handlerFor(t, demoModel{}, 0), "POST", "/v1/chat/completions", `{"`+field+`":3,`+hello[1:])
		answer := gjson.ParseBytes(w.Body.Bytes())
		assert.Equal(t, "Hello anonymous, you", answer.Get("choices.0.message.content").String())
		assert.Equal(t, "length", answer.Get("choices.0.finish_reason").String())
		assert.EqualValues(t, 3, answer.Get("usage.completion_tokens").Int())
	}
}

func TestAnswerStreamed(t *testing.T) {
	for _, withUsage := range []bool{false, true} {
		body := `{"stream":true,` + hello[1:]
		if withUsage {
			body = `{"stream_options":{"include_usage":true},` + body[1:]
		}
		w := do(handlerFor(t, demoModel{}, 0), "POST", "/v1/chat/completions", body)
		require.Equal(t, http.StatusOK, w.Code)
		assert.Equal(t, "text/event-stream; charset=utf-8", w.Header().Get("Content-Type"))
		assert.True(t, strings.HasSuffix(w.Body.String(), "\n\ndata: [DONE]\n\n"))
		var all []gjson.Result
		for event := range strings.SplitSeq(strings.TrimSuffix(w.Body.String(), "data: [DONE]\n\n"), "\n\n") {
			if event != "" {
				all = append(all, gjson.Parse(strings.TrimPrefix(event, "data: ")))
			}
		}
		assert.Equal(t, "assistant", all[0].Get("choices.0.delta.role").String())
		for _, chunk := range all {
			assert.Equal(t, all[0].Get("id"), chunk.Get("id"))
			assert.Equal(t, "chat.completion.chunk", chunk.Get("object").String())
			assert.False(t, chunk.Get("error").Exists(), `OpenAI's Go client takes "error":null for an error`)
			assert.Equal(t, withUsage, chunk.Get("usage").Exists())
		}
		if withUsage {
			last := all[len(all)-1]
			all = all[:len(all)-1]
			assert.Equal(t, "[]", last.Get("choices").Raw)
			assert.EqualValues(t, len(all)-2, last.Get("usage.completion_tokens").Int())
		}
		last := all[len(all)-1]
		assert.Equal(t, "stop", last.Get("choices.0.finish_reason").String())
		assert.Equal(t, "{}", last.Get("choices.0.delta").Raw)
	}
}

// Nobody passes for another by naming it elsewhere, and the token is not shown.
func TestSessionKey(t *testing.T) {
	key := func(body string, headers ...string) string {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		k, err := sessionKey(r)
		require.NoError(t, err)
		return k
	}
	tests := []struct{ name, key, want string }{
		{"nothing", key(`{}`), "address%3A192.0.2.1:default"},
		{"header first", key(`{"user":"bob"}`, "X-User-ID", "alice", "Authorization", "Bearer t"), "header%3Aalice:default"},
		{"body last", key(`{"user":"bob"}`), "body%3Abob:default"},
		{"session header first", key(`{"user":"bob","metadata":{"session_id":"s"}}`, "X-Session-ID", "h"), "body%3Abob:h"},
		{"session body", key(`{"user":"bob","metadata":{"session_id":"s"}}`), "body%3Abob:s"},
		{"nulls", key(`{"user":null,"metadata":null}`), "address%3A192.0.2.1:default"},
		{"no mix-up", key(`{}`, "X-User-ID", "a:b", "X-Session-ID", "c"), "header%3Aa%253Ab:c"},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, tt.key, tt.name)
	}
	token := key(`{"user":"bob"}`, "Authorization", "Bearer sk-secret")
	assert.Regexp(t, `^token%3A[0-9a-f]{64}:default$`, token)
}

func TestModelNeverNamesTheToken(t *testing.T) {
	w := do(handlerFor(t, demoModel{}, 0), "POST", "/v1/chat/completions", hello, "Authorization", "Bearer sk-secret")
	assert.Contains(t, w.Body.String(), "Hello anonymous,")
	assert.NotContains(t, w.Body.String(), "sk-secret")
}

func TestPage(t *testing.T) {
	h := handlerFor(t, demoModel{}, 5*time.Second)
	w := do(h, "GET", "/", "")
	require.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
	assert.Contains(t, w.Body.String(), "at most 5s")
	for _, name := range []string{"style.css", "app.js", "api.js", "race.js", "status.js", "words.js"} {
		w := do(h, "GET", "/page/"+name, "")
		assert.Equal(t, http.StatusOK, w.Code, name)
		assert.NotEmpty(t, w.Body.String(), name)
	}
	assert.Equal(t, http.StatusNotFound, do(h, "GET", "/page/index.html", "").Code)
	assert.Contains(t, do(handlerFor(t, demoModel{}, 0), "GET", "/", "").Body.String(), "turned away at once")
}

func TestHealthAndModels(t *testing.T) {
	h := handlerFor(t, demoModel{}, 0)
	assert.Equal(t, http.StatusOK, do(h, "GET", "/healthz", "").Code)
	assert.Equal(t, "reqlock-demo", gjson.Get(do(h, "GET", "/v1/models", "").Body.String(), "data.0.id").String())
	w := do(h, "GET", "/nowhere", "")
	assert.Equal(t, http.StatusNotFound, w.Code)
	assert.Equal(t, "Not Found\n", w.Body.String())
}

// A session that is busy is one user's: others are served meanwhile.
func TestBusyIsTold(t *testing.T) {
	url := startServer(t, demoModel{delay: time.Hour}, 0)
	client := newClient(t)
	first := &call{user: "alice", session: "s", prompt: "one", stream: true}
	resp, err := client.Do(first.request(t, url))
	require.NoError(t, err) // its turn has come
	defer resp.Body.Close()

	second := (&call{user: "alice", session: "s", prompt: "two"}).send(t, client, url)
	require.Equal(t, http.StatusTooManyRequests, second.status)
	requireError(t, second.body, "rate_limit_exceeded", "session_busy")
	assert.Regexp(t, `^[1-9]\d*$`, second.header.Get("Retry-After"))

	for _, other := range []*call{{user: "bob", session: "s", stream: true}, {user: "alice", session: "t", stream: true}} {
		resp, err := client.Do(other.request(t, url))
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
}

type panicking struct{ backend }

func (panicking) prepare([]byte) (http.HandlerFunc, *apiError) {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(userHeader) == "late" {
			_, _ = io.WriteString(w, "half an answer")
			_ = http.NewResponseController(w).Flush()
		}
		panic("the model has failed")
	}, nil
}

func TestPanic(t *testing.T) {
	url := startServer(t, panicking{}, 0)
	client := newClient(t)
	for range 2 { // the key is free again
		c := (&call{user: "early"}).send(t, client, url)
		assert.Equal(t, http.StatusInternalServerError, c.status)
		requireError(t, c.body, "server_error", "internal_error")

		resp, err := client.Do((&call{user: "late"}).request(t, url))
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "half an answer looks whole")
		require.NoError(t, resp.Body.Close())
	}
}
