package main

import (
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/proctest"
	"github.com/reqlock/reqlock/internal/redistest"
)

// What cannot work ends at once, with one line that says why.
func TestStartFails(t *testing.T) {
	bin := binary(t) // takes a while, which is not the server's
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	port := taken.Addr().String()
	withPassword := startRedisWithPassword(t)
	tests := []struct {
		name, args string
		code       int
		line       string
	}{
		{"unknown flag", "-nope", 2, "chatserver: flag provided but not defined: -nope (-h explains the flags)"},
		{"bad value", "-wait fast", 2, `chatserver: invalid value "fast" for flag -wait: must be 0 or a duration such as 500ms or 3s (-h explains the flags)`},
		{"port taken", "-listen " + port, 1, "chatserver: listen tcp " + port + ": bind: address already in use: does another one run? -listen takes another address"},
		{"Redis away", "-redis 127.0.0.1:1", 1, "chatserver: cannot use Redis at 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused"},
		{"not a Redis", "-redis " + port, 1, "chatserver: cannot use Redis at " + port + ": no answer in 2s"},
		{"no password", "-redis " + withPassword.Addr(), 1, "chatserver: cannot use Redis at " + withPassword.Addr() + ": NOAUTH "},
		{"no password, with a fallback", "-fallback open -redis " + withPassword.Addr(), 1, "chatserver: cannot use Redis at " + withPassword.Addr() + ": NOAUTH "},
		{"wrong password", "-redis redis://:hunter2@" + withPassword.Addr(), 1, "chatserver: cannot use Redis at " + withPassword.Addr() + ": WRONGPASS "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Now()
			p := proctest.Start(t, exec.Command(bin, strings.Fields(tt.args)...))
			assert.Equal(t, tt.code, p.ExitCode())
			assert.Less(t, time.Since(start), 4*time.Second)
			out := p.Output()
			assert.True(t, strings.HasPrefix(out, tt.line), out)
			assert.Equal(t, 1, strings.Count(out, "\n"), out)
			assert.NotContains(t, out, "hunter2")
		})
	}
}

func startRedisWithPassword(t *testing.T) *redistest.Server {
	t.Helper()
	srv := redistest.Start(t)
	require.NoError(t, srv.Client().ConfigSet(t.Context(), "requirepass", "secret").Err())
	return srv
}

func TestHelp(t *testing.T) {
	p := proctest.Start(t, exec.Command(binary(t), "-h"))
	assert.Zero(t, p.ExitCode())
	assert.Equal(t, help, p.Output())
}

func TestStartSaysWhatItIs(t *testing.T) {
	srv := startRedisWithPassword(t)
	tests := []struct {
		args string
		want []string
	}{
		{"", []string{"model: reqlock-demo, built in", "redis: embedded"}},
		{"-fallback local", []string{"redis: embedded"}},
		{"-redis redis://:secret@" + srv.Addr() + " -upstream http://127.0.0.1:1/v1 -api-key sk-secret", []string{"model: those of http://127.0.0.1:1/v1", "redis: " + srv.Addr()}},
	}
	for _, tt := range tests {
		p := startPod(t, strings.Fields(tt.args)...)
		for _, want := range tt.want {
			assert.Contains(t, p.Output(), want)
		}
		assert.NotContains(t, p.Output(), "secret")
		resp, err := newClient(t).Get(p.url + "/healthz")
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
}

// The embedded Redis is one in every respect that a lock needs: the key of a
// process that has died in it expires.
func TestEmbeddedRedisExpires(t *testing.T) {
	m, err := startEmbedded()
	require.NoError(t, err)
	defer m.Close()
	require.NoError(t, m.Set("key", "value"))
	m.SetTTL("key", 50*time.Millisecond)
	require.True(t, m.Exists("key"))
	require.Eventually(t, func() bool { return !m.Exists("key") }, 10*time.Second, 5*time.Millisecond)
}
