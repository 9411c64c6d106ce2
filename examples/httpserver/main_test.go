package main

import (
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/reqlock/reqlock/internal/proctest"
	"github.com/reqlock/reqlock/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, args ...string) (p *proctest.Process, url string) {
	bin := proctest.Build(t, "github.com/reqlock/reqlock/examples/httpserver")
	p = proctest.Start(t, exec.Command(bin, append(args, "-listen", "127.0.0.1:0")...))
	_, url, _ = strings.Cut(p.WaitFor("try: curl -X POST "), "POST ")
	return p, strings.TrimSuffix(url, "/42/pay")
}

func post(t *testing.T, client *http.Client, url string) (status int, body string) {
	resp, err := client.Post(url, "", nil)
	if !assert.NoError(t, err) {
		return 0, ""
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	assert.NoError(t, err)
	return resp.StatusCode, string(data)
}

func TestOneProcessWithoutRedis(t *testing.T) {
	p, url := start(t)
	p.WaitFor("in this process only")
	client := &http.Client{}
	defer client.CloseIdleConnections()
	status, body := post(t, client, url+"/42/pay")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, "order 42: paid, fence ")
	p.Terminate()
	assert.Zero(t, p.ExitCode())
}

// The fences tell that the two ran under different leases, and the empty
// server that both were given back.
func TestTwoProcessesOneOrder(t *testing.T) {
	srv := redistest.Start(t)
	client := &http.Client{}
	defer client.CloseIdleConnections()
	bodies := make([]string, 2)
	var both sync.WaitGroup
	for i := range bodies {
		_, url := start(t, "-redis", srv.Addr())
		both.Go(func() {
			var status int
			status, bodies[i] = post(t, client, url+"/42/pay")
			assert.Equal(t, http.StatusOK, status)
		})
	}
	both.Wait()
	require.NotEqual(t, bodies[0], bodies[1])
	assert.Empty(t, srv.Keys("reqlock:*:lock"))
}
