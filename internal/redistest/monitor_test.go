package redistest_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
)

func TestMonitor(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client()
	require.NoError(t, rdb.Set(t.Context(), "before", 1, 0).Err())
	begin := time.Now()
	mon := srv.Monitor(t)
	require.Empty(t, mon.Calls())

	arg := "a \"quoted\" \\ word,\r\n\x00\xff] \"é"
	require.NoError(t, rdb.Set(t.Context(), arg, "", 0).Err())
	require.NoError(t, rdb.Eval(t.Context(), `redis.call("incr", KEYS[1]) return redis.call("GET", KEYS[1])`, []string{"n"}).Err())
	calls := mon.Calls()
	require.Equal(t, []string{"set", "eval", "incr", "get"}, calls.Names())
	assert.Equal(t, []string{"set", arg, ""}, calls[0].Args)
	assert.Equal(t, calls[0].Client, calls[1].Client)
	assert.Equal(t, []string{"set", "eval"}, calls.TopLevel().Names())
	assert.Equal(t, []string{"incr", "get"}, calls.InScripts().Names())
	assert.Equal(t, []string{"GET", "n"}, calls.Named("get", "del")[0].Args)
	assert.Equal(t, `[0 lua] ["GET" "n"]`, calls[3].String())
	assert.WithinRange(t, calls[0].At, begin.Add(-time.Second), time.Now().Add(time.Second))

	require.NoError(t, rdb.Del(t.Context(), "n").Err())
	require.Equal(t, []string{"set", "eval", "incr", "get", "del"}, mon.Stop().Names())
	require.Equal(t, []string{"set", "eval", "incr", "get"}, calls.Names(), "a result does not change")
}

func TestMonitorLosesNothing(t *testing.T) {
	srv := redistest.Start(t)
	mon := srv.Monitor(t)
	const clients, each = 8, 500
	var wg sync.WaitGroup
	for range clients {
		rdb := redis.NewClient(&redis.Options{Addr: srv.Addr()})
		defer rdb.Close()
		wg.Go(func() {
			for range each {
				assert.NoError(t, rdb.Incr(t.Context(), "n").Err())
			}
		})
	}
	wg.Wait()
	require.Len(t, mon.Stop().Named("incr"), clients*each)
}

func TestMonitorOfKilledServer(t *testing.T) {
	srv := redistest.Start(t)
	tb := &failing{TB: t}
	mon := srv.Monitor(tb)
	srv.Kill()
	tb.run(func() { mon.Calls() })
	assert.Contains(t, tb.message, "redistest: read monitor")
}

// A monitor may end before its server does.
func TestMonitorOfSubtest(t *testing.T) {
	srv := redistest.Start(t)
	for range 3 {
		t.Run("test", func(t *testing.T) {
			mon := srv.Monitor(t)
			require.NoError(t, srv.Client().Ping(t.Context()).Err())
			require.Equal(t, []string{"ping"}, mon.Calls().Names())
		})
	}
	require.Eventually(t, func() bool {
		return !strings.Contains(srv.Client().ClientList(t.Context()).Val(), "cmd=monitor")
	}, 10*time.Second, time.Millisecond)
}
