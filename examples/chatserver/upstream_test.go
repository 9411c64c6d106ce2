package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// through starts a server in front of an upstream that answers with h.
func through(t *testing.T, apiKey string, h http.HandlerFunc) string {
	t.Helper()
	return inFrontOf(t, serveTest(t, h), apiKey)
}

func inFrontOf(t *testing.T, address, apiKey string) string {
	t.Helper()
	return startServer(t, upstreamAt(t, address, apiKey), 10*time.Second)
}

func upstreamAt(t *testing.T, address, apiKey string) *upstream {
	t.Helper()
	base, err := url.Parse(address + "/v1")
	require.NoError(t, err)
	u := newUpstream(base, apiKey)
	t.Cleanup(u.client.CloseIdleConnections)
	return u
}

// What the upstream gets is the request, and of its headers what concerns it;
// never what the client has shown to this server.
func TestUpstreamGetsTheRequest(t *testing.T) {
	for _, key := range []string{"", "sk-ours"} {
		var got *http.Request
		var body string
		base := through(t, key, func(w http.ResponseWriter, r *http.Request) {
			data, _ := io.ReadAll(r.Body)
			got, body = r, string(data)
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Ratelimit-Remaining-Tokens", "7")
			w.Header().Set("Openai-Processing-Ms", "3")
			w.Header().Set("X-Request-Id", "req_1")
			w.Header().Set("Set-Cookie", "upstream=1")
			fmt.Fprint(w, `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`)
		})
		const sent = ` {"model":"gpt-4o", "unknown":[1.0], "messages":[] }`
		req, err := http.NewRequestWithContext(t.Context(), "POST", base+"/v1/chat/completions", strings.NewReader(sent))
		require.NoError(t, err)
		req.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Authorization": {"Bearer sk-theirs"}, "Cookie": {"c=1"}, "X-User-Id": {"alice"}, "X-Session-Id": {"s"}}
		resp, err := newClient(t).Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		require.NoError(t, err)

		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Equal(t, "hi", gjson.GetBytes(answer, "choices.0.message.content").String())
		assert.Equal(t, "7", resp.Header.Get("X-Ratelimit-Remaining-Tokens"))
		assert.Equal(t, "3", resp.Header.Get("Openai-Processing-Ms"))
		assert.Equal(t, "req_1", resp.Header.Get("X-Request-Id"))
		assert.Empty(t, resp.Header.Get("Set-Cookie"))
		assert.Equal(t, "/v1/chat/completions", got.URL.Path)
		assert.Equal(t, sent, body)
		assert.Equal(t, "application/json", got.Header.Get("Content-Type"))
		assert.Equal(t, "alice", got.Header.Get("X-User-ID"))
		assert.Equal(t, "s", got.Header.Get("X-Session-ID"))
		assert.Empty(t, got.Header.Get("Cookie"))
		if key == "" {
			assert.Empty(t, got.Header.Get("Authorization"))
		} else {
			assert.Equal(t, "Bearer sk-ours", got.Header.Get("Authorization"))
		}
	}
}

func TestUpstreamModels(t *testing.T) {
	base := through(t, "", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"data":[{"id":%q}]}`, r.Method+r.URL.Path)
	})
	resp, err := newClient(t).Get(base + "/v1/models")
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "GET/v1/models", gjson.GetBytes(body, "data.0.id").String())
}

func TestUpstreamErrors(t *testing.T) {
	tests := []struct {
		name       string
		status     int
		body       string
		want       int
		code, text string
	}{
		{"OpenAI's own", 429, `{"error":{"message":"m","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, 429, "insufficient_quota", `"message":"m"`},
		{"a proxy's page", 502, `<h1>Bad Gateway</h1>`, 502, "upstream_failed", "502 Bad Gateway"},
		{"a bare string", 400, `{"error":"no"}`, 400, "upstream_failed", "400 Bad Request"},
		{"a redirect", 307, ``, 502, "upstream_failed", "307 Temporary Redirect"},
		{"our key", 401, `{"error":{"message":"Incorrect API key provided: sk-ou*s"}}`, 401, "invalid_api_key", "API key that this server was started with"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			base := through(t, "sk-ours", func(w http.ResponseWriter, _ *http.Request) {
				calls++
				w.Header().Set("Location", "/v1/elsewhere")
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.body)
			})
			c := (&call{user: "alice", stream: true}).send(t, newClient(t), base)
			assert.Equal(t, tt.want, c.status)
			assert.Equal(t, tt.code, gjson.Get(c.body, "error.code").String(), c.body)
			assert.Contains(t, c.body, tt.text)
			assert.NotContains(t, c.body, "sk-ou")
			assert.Equal(t, "3", c.header.Get("Retry-After"))
			assert.Equal(t, 1, calls)
		})
	}
}

func TestUpstreamWantsAKey(t *testing.T) {
	base := through(t, "", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	c := (&call{user: "alice"}).send(t, newClient(t), base)
	assert.Equal(t, http.StatusUnauthorized, c.status)
	requireError(t, c.body, "invalid_request_error", "invalid_api_key")
	assert.Contains(t, c.body, "OPENAI_API_KEY")
	assert.Equal(t, "false", c.header.Get("X-Should-Retry"))
}

func TestUpstreamUnreachable(t *testing.T) {
	up := httptest.NewServer(nil)
	up.Close()
	base := inFrontOf(t, up.URL, "sk-ours")
	for range 2 { // the key is free again
		c := (&call{user: "alice"}).send(t, newClient(t), base)
		assert.Equal(t, http.StatusBadGateway, c.status)
		requireError(t, c.body, "server_error", "upstream_unreachable")
		assert.NotContains(t, c.body, strings.TrimPrefix(up.URL, "http://"))
	}
}

// A24: an answer that the upstream cut short must not look complete.
func TestUpstreamBreaksOff(t *testing.T) {
	const token = `data: {"choices":[{"delta":{"content":"half"}}]}` + "\n\n"
	tests := []struct {
		name, kind, sent string
		abort            bool
	}{
		{"between events", "text/event-stream", token, true},
		{"inside of an event", "text/event-stream", token + `data: {"choices":[{"delta":{"content":"lost`, true},
		{"before the end of an event", "text/event-stream", token + `data: {"choices":[]}` + "\n", true},
		{"with a clean end", "text/event-stream; charset=utf-8", token, false},
		{"with an endless line", "text/event-stream", token + "data: " + strings.Repeat("x", maxLine+1), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := through(t, "", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				_, _ = io.WriteString(w, tt.sent)
				_ = http.NewResponseController(w).Flush()
				if tt.abort {
					panic(http.ErrAbortHandler)
				}
			})
			resp, err := newClient(t).Do((&call{user: "alice", stream: true}).request(t, base))
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "half an answer looks whole")
			assert.NotContains(t, string(body), "[DONE]")
			assert.NotContains(t, string(body), "lost")
			all := strings.Split(strings.TrimSuffix(string(body), "\n\n"), "\n\n")
			assert.Equal(t, token, all[0]+"\n\n")
			requireError(t, strings.TrimPrefix(all[len(all)-1], "data: "), "server_error", "cut_off")
		})
	}
}

func TestUpstreamBreaksOffBeforeTheAnswer(t *testing.T) {
	base := through(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	c := (&call{user: "alice"}).send(t, newClient(t), base)
	assert.Equal(t, http.StatusBadGateway, c.status)
	requireError(t, c.body, "server_error", "upstream_unreachable")
}

// Streams go on as they come: comments, events of several lines and line ends
// included.
func TestUpstreamStream(t *testing.T) {
	base := through(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": ping\nevent: x\ndata: {\"a\":\ndata: 1}\n\ndata: 2\r\n\r\ndata: [DONE]\n\n")
	})
	resp, err := newClient(t).Do((&call{user: "alice", stream: true}).request(t, base))
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, ": ping\nevent: x\ndata: {\"a\":\ndata: 1}\n\ndata: 2\n\ndata: [DONE]\n\n", string(body))
}

// sendTokens sends the header, then each of three tokens when it is told to.
func sendTokens(w http.ResponseWriter, r *http.Request, next <-chan struct{}) {
	_ = http.NewResponseController(w).Flush()
	for i := range 3 {
		select {
		case <-next:
		case <-r.Context().Done():
			return
		}
		fmt.Fprintf(w, "data: %d\n\n", i)
		_ = http.NewResponseController(w).Flush()
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// A28: each token is on its way before the next one is there.
func TestUpstreamTokensComeOneByOne(t *testing.T) {
	next := make(chan struct{})
	base := through(t, "", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		sendTokens(w, r, next)
	})
	resp, err := newClient(t).Do((&call{user: "alice", stream: true}).request(t, base))
	require.NoError(t, err) // the turn shows before any token
	defer resp.Body.Close()
	for i := range 3 {
		next <- struct{}{}
		event := make([]byte, len("data: 0\n\n"))
		_, err := io.ReadFull(resp.Body, event)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("data: %d\n\n", i), string(event))
	}
}

// L1: a client that leaves ends the call to the upstream and frees its session.
func TestClientLeavesUpstream(t *testing.T) {
	for _, stream := range []bool{true, false} {
		started, cancelled := make(chan struct{}, 1), make(chan struct{}, 1)
		base := through(t, "", func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body) // net/http notices that a client leaves after this
			if strings.Contains(string(body), "second") {
				fmt.Fprint(w, `{}`)
				return
			}
			if stream {
				w.Header().Set("Content-Type", "text/event-stream")
				_ = http.NewResponseController(w).Flush()
			}
			started <- struct{}{}
			<-r.Context().Done()
			cancelled <- struct{}{}
		})
		client := newClient(t)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		first := (&call{user: "alice", prompt: "first", stream: stream}).request(t, base).WithContext(ctx)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if resp, err := client.Do(first); err == nil {
				_, _ = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
		}()
		receive(t, started)
		leave()
		receive(t, cancelled)
		receive(t, gone)
		second := (&call{user: "alice", prompt: "second"}).send(t, client, base)
		assert.Equal(t, http.StatusOK, second.status)
	}
}
