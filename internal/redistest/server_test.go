package redistest_test

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
)

func TestStart(t *testing.T) {
	srv := redistest.Start(t, "maxmemory 5mb", `requirepass ""`)
	rdb := srv.Client()
	require.Same(t, rdb, srv.Client())
	require.NoError(t, rdb.Set(t.Context(), "k", "v", 0).Err())
	conf, err := rdb.ConfigGet(t.Context(), "*").Result()
	require.NoError(t, err)
	assert.Equal(t, "5242880", conf["maxmemory"])
	assert.Empty(t, conf["save"])
	assert.Equal(t, "127.0.0.1", conf["bind"])
}

// Servers share nothing, however many start at once.
func TestStartManyAtOnce(t *testing.T) {
	for _, name := range []string{"a", "b", "c", "d"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			require.NoError(t, srv.Client().Set(t.Context(), name, 1, 0).Err())
			require.Equal(t, []string{name}, srv.Keys("*"))
		})
	}
}

func TestStartMasters(t *testing.T) {
	servers := redistest.StartMasters(t, 5, "maxmemory 5mb")
	require.Len(t, servers, 5)
	for _, srv := range servers {
		require.Empty(t, srv.Keys("*"))
		require.NoError(t, srv.Client().Set(t.Context(), "k", 1, 0).Err())
		assert.Equal(t, "5242880", srv.Client().ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"])
	}
}

// The server outlives the cleanups of its users, also after a Restart, and is
// gone, with its directory, when the test has ended.
func TestStopsAfterTheTest(t *testing.T) {
	var addr, dir string
	t.Run("test", func(t *testing.T) {
		srv := redistest.Start(t)
		addr = srv.Addr()
		t.Cleanup(func() {
			dir = srv.Client().ConfigGet(context.Background(), "dir").Val()["dir"]
			assert.DirExists(t, dir)
		})
		srv.Restart()
	})
	require.NotEmpty(t, dir)
	assert.NoDirExists(t, dir)
	assert.ErrorIs(t, ping(addr), syscall.ECONNREFUSED)
}

func TestStopsPausedServer(t *testing.T) {
	var addr string
	t.Run("test", func(t *testing.T) {
		srv := redistest.Start(t)
		addr = srv.Addr()
		srv.Pause()
	})
	assert.ErrorIs(t, ping(addr), syscall.ECONNREFUSED)
}

func TestFailsWithoutRedisServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	tb := &failing{TB: t}
	tb.run(func() { redistest.Start(tb) })
	assert.Contains(t, tb.message, "apt-get install redis-server")
}

func TestFailsOnBadConfig(t *testing.T) {
	tb := &failing{TB: t}
	tb.run(func() { redistest.Start(tb, "no-such-directive yes") })
	assert.Contains(t, tb.message, "the process has exited")
}

// A paused server accepts, answers nothing, and does the work later, also for a
// client that has gone.
func TestPause(t *testing.T) {
	srv := redistest.Start(t)
	srv.Pause()
	c := dial(t, srv.Addr())
	_, err := c.Write([]byte("SET k v\r\n"))
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.Close())
	srv.Resume()
	require.Eventually(t, func() bool { return len(srv.Keys("*")) == 1 }, 10*time.Second, time.Millisecond)
}

func TestRestart(t *testing.T) {
	for _, tc := range []struct {
		name   string
		config []string
		kill   bool
		want   []string
	}{
		{"running", nil, false, nil},
		{"killed", nil, true, nil},
		{"running, with a file", []string{"appendonly yes"}, false, []string{"k"}},
		{"killed, with a file", []string{"appendonly yes"}, true, []string{"k"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t, tc.config...)
			addr, before := srv.Addr(), runID(t, srv)
			require.NoError(t, srv.Client().Set(t.Context(), "k", "v", 0).Err())
			if tc.kill {
				srv.Kill()
				require.ErrorIs(t, ping(addr), syscall.ECONNREFUSED)
			}
			srv.Restart()
			assert.Equal(t, addr, srv.Addr())
			assert.NoError(t, ping(addr))
			assert.NotEqual(t, before, runID(t, srv))
			assert.Equal(t, tc.want, srv.Keys("*"))
		})
	}
}

func TestKeys(t *testing.T) {
	srv := redistest.Start(t)
	assert.Empty(t, srv.Keys("*"))
	require.NoError(t, srv.Client().MSet(t.Context(), "b:1", 1, "a:2", 1, "a:1", 1).Err())
	assert.Equal(t, []string{"a:1", "a:2", "b:1"}, srv.Keys("*"))
	assert.Equal(t, []string{"a:1", "a:2"}, srv.Keys("a:*"))
}

func TestCommands(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client()
	require.NoError(t, rdb.Set(t.Context(), "k", "v", 0).Err())
	require.NoError(t, rdb.Eval(t.Context(), `redis.call("SET", KEYS[1], 1) return redis.call("SET", KEYS[1], 2)`, []string{"k"}).Err())
	require.NoError(t, rdb.ClientID(t.Context()).Err())
	want := map[string]int64{"set": 3, "eval": 1, "client|id": 1, "get": 0}
	assert.Equal(t, want, srv.Commands("set", "eval", "client|id", "get"))
	all := srv.Commands()
	assert.EqualValues(t, 3, all["set"])
	assert.NotContains(t, all, "get")
}

func runID(t *testing.T, srv *redistest.Server) string {
	t.Helper()
	info, err := srv.Client().InfoMap(t.Context(), "server").Result()
	require.NoError(t, err)
	return info["Server"]["run_id"]
}
