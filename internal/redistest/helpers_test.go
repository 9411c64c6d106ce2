package redistest_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
)

// dial returns a connection that gives up in time and is closed at the end.
func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	return c.(*net.TCPConn)
}

// ask sends one command on a connection and returns the first line of the
// answer.
func ask(c net.Conn, command string) (string, error) {
	if _, err := fmt.Fprintf(c, "%s\r\n", command); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}

// ping asks over a connection of its own.
func ping(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = ask(c, "PING")
	return err
}

// setReplicated writes a key and returns when this many replicas have it.
func setReplicated(t *testing.T, rdb *redis.Client, key string, replicas int) {
	t.Helper()
	var acked *redis.Cmd
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error { // on one connection
		p.Set(t.Context(), key, 1, 0)
		acked = p.Do(t.Context(), "wait", replicas, 2500)
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, replicas, acked.Val(), "replicas have answered")
}

// setEventually writes a key once the client has found the master.
func setEventually(t *testing.T, rdb redis.Cmdable, key string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, rdb.Set(context.Background(), key, 1, 0).Err())
	}, time.Minute, 10*time.Millisecond)
}

// awaitReplica waits until a server is a replica and in sync with its master.
func awaitReplica(t *testing.T, replica, master *redistest.Server) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		info, err := replica.Client().InfoMap(context.Background(), "replication").Result()
		require.NoError(c, err)
		r := info["Replication"]
		assert.Equal(c, []string{"slave", master.Addr(), "up"}, []string{
			r["role"], net.JoinHostPort(r["master_host"], r["master_port"]), r["master_link_status"],
		})
	}, time.Minute, 10*time.Millisecond)
}

// failing is a TB whose failure is what the test expects.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Fatal(args ...any)                 { f.message = fmt.Sprint(args...); runtime.Goexit() }
func (f *failing) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

// run calls what is expected to fail.
func (f *failing) run(fn func()) {
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	<-done
}
