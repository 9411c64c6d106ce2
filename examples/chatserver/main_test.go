package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/reqlock/reqlock/internal/proctest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// A pod is a chatserver in a process of its own.
type pod struct {
	*proctest.Process
	url string // without a slash at its end
}

// get returns what is served at a path. It may be called from any goroutine.
func (p *pod) get(t *testing.T, path string) string {
	t.Helper()
	resp, err := newClient(t).Get(p.url + path)
	if !assert.NoError(t, err) {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	assert.NoError(t, err)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	return string(body)
}

func binary(t *testing.T) string {
	t.Helper()
	return proctest.Build(t, "github.com/reqlock/reqlock/examples/chatserver")
}

func startPod(t *testing.T, args ...string) *pod {
	t.Helper()
	p := proctest.Start(t, exec.Command(binary(t), append([]string{"-listen", "127.0.0.1:0"}, args...)...))
	_, url, _ := strings.Cut(p.WaitFor("chatserver: open "), "open ")
	return &pod{Process: p, url: strings.TrimSuffix(url, "/")}
}

// newClient returns a client that waits longer than anything here takes.
func newClient(t *testing.T) *http.Client {
	client := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// A call is a chat request and what came of it.
type call struct {
	user, session, prompt string
	stream                bool

	status int
	header http.Header
	body   string // of an error, or of an answer that is not streamed
	text   string // the answer
	done   bool   // the answer is complete
	last   string // event of a stream
	err    error  // how the stream ended
}

// send does the call. It may be called from any goroutine.
func (c *call) send(t *testing.T, client *http.Client, base string) *call {
	req := c.request(t, base)
	resp, err := client.Do(req)
	if !assert.NoError(t, err) {
		return c
	}
	defer resp.Body.Close()
	c.status, c.header = resp.StatusCode, resp.Header
	if !c.stream || c.status != http.StatusOK {
		data, err := io.ReadAll(resp.Body)
		assert.NoError(t, err)
		c.body = string(data)
		c.text = gjson.Get(c.body, "choices.0.message.content").String()
		c.done = gjson.Get(c.body, "choices.0.finish_reason").String() == "stop"
		return c
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			c.last = data
			c.done = c.done || data == "[DONE]"
			c.text += gjson.Get(data, "choices.0.delta.content").String()
		}
	}
	c.err = lines.Err()
	return c
}

func (c *call) request(t *testing.T, base string) *http.Request {
	body, err := json.Marshal(map[string]any{
		"model":    "gpt-4o",
		"stream":   c.stream,
		"messages": []map[string]string{{"role": "user", "content": c.prompt}},
	})
	assert.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/chat/completions", bytes.NewReader(body))
	assert.NoError(t, err)
	req.Header.Set("X-User-ID", c.user)
	req.Header.Set("X-Session-ID", c.session)
	return req
}

// quotes tells whether the answer is the one to this call.
func (c *call) quotes() bool {
	return strings.Contains(c.text, c.user+",") && strings.Contains(c.text, "“"+c.prompt+"”")
}

func (c *call) String() string {
	return fmt.Sprintf("%s/%s %q: %d %q %s", c.user, c.session, c.prompt, c.status, c.text, c.body)
}

// serveTest serves h for the length of the test, and does not wait for
// handlers that wait for something that went wrong.
func serveTest(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}

// receive waits for longer than anything here takes.
func receive[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came")
	}
	return v
}

// requireError checks an error in the shape that OpenAI's clients read.
func requireError(t *testing.T, body, kind, code string) {
	t.Helper()
	require.True(t, gjson.Valid(body), body)
	e := gjson.Get(body, "error")
	require.NotEmpty(t, e.Get("message").String(), body)
	require.Equal(t, kind, e.Get("type").String(), body)
	require.True(t, e.Get("param").Exists(), body)
	require.Equal(t, code, e.Get("code").String(), body)
}
