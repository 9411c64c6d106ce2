package main

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
)

// However a command is cut into writes, it is counted once.
func TestRequests(t *testing.T) {
	const sent = "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n" +
		"*3\r\n$7\r\nEVALSHA\r\n$4\r\n*1\r\n\r\n$0\r\n\r\n" +
		"*1\r\n$4\r\nping\r\n" +
		"*2\r\n$3\r\nget\r\n$12\r\n$3\r\nSET\r\n*1\n\r\n" +
		"*3\r\n$6\r\nclient\r\n$7\r\nsetinfo\r\n$0\r\n\r\n"
	for size := 1; size <= len(sent); size++ {
		var w wire
		r := requests{wire: &w}
		for b := []byte(sent); len(b) > 0; {
			n := min(size, len(b))
			r.pass(b[:n])
			b = b[n:]
		}
		require.EqualValues(t, 2, w.sent.Load(), "size %d", size)
		require.EqualValues(t, 1, w.pings.Load(), "size %d", size)
	}
}

// What the clients of all peers send is counted as the server counts it.
func TestWire(t *testing.T) {
	addr := redistest.Start(t).Addr()
	ctx := t.Context()
	counter, err := connect(ctx, addr)
	require.NoError(t, err)
	defer counter.close()
	large := strings.Repeat("*1\r\n", 100_000)
	for _, c := range []struct {
		name string
		send func(*testing.T, setup)
	}{
		{"go-redis", func(t *testing.T, s setup) {
			client := s.client()
			t.Cleanup(func() { _ = client.Close() })
			require.NoError(t, client.Set(ctx, "key", large, 0).Err())
			require.NoError(t, client.Get(ctx, "key").Err())
			require.NoError(t, client.Ping(ctx).Err())
			_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
				for range 1000 {
					p.Get(ctx, "none")
				}
				return nil
			})
			require.ErrorIs(t, err, redis.Nil)
			inbox := client.Subscribe(ctx, "inbox")
			t.Cleanup(func() { _ = inbox.Close() })
			_, err = inbox.Receive(ctx)
			require.NoError(t, err)
		}},
		{"rueidis", func(t *testing.T, s setup) {
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DialCtxFn: s.dialRueidis})
			require.NoError(t, err)
			t.Cleanup(client.Close)
			require.NoError(t, client.Do(ctx, client.B().Set().Key("key").Value(large).Build()).Error())
			require.NoError(t, client.Do(ctx, client.B().Get().Key("key").Build()).Error())
			require.NoError(t, client.Do(ctx, client.B().Ping().Build()).Error())
			var many rueidis.Commands
			for range 1001 {
				many = append(many, client.B().Get().Key("none").Build())
			}
			for _, answer := range client.DoMulti(ctx, many...) {
				require.True(t, rueidis.IsRedisNil(answer.Error()))
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w wire
			before, err := counter.calls(ctx)
			require.NoError(t, err)
			c.send(t, setup{redis: addr, wire: &w})
			after, err := counter.calls(ctx)
			require.NoError(t, err)
			assert.EqualValues(t, 1003, w.sent.Load())
			assert.EqualValues(t, 1003, after-before)
			assert.EqualValues(t, 1, w.pings.Load())
		})
	}
}

// What scripts call is carried out, and not sent.
func TestCallsInScripts(t *testing.T) {
	counter, err := connect(t.Context(), redistest.Start(t).Addr())
	require.NoError(t, err)
	defer counter.close()
	var w wire
	client := setup{redis: counter.addr, wire: &w}.client()
	defer client.Close()
	require.NoError(t, client.Eval(context.Background(), "redis.call('SET', KEYS[1], 1) return redis.call('GET', KEYS[1])", []string{"key"}).Err())
	calls, err := counter.calls(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, w.sent.Load())
	assert.EqualValues(t, 3, calls)
}
