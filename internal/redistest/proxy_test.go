package redistest_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
)

// start returns a server, a proxy before it, and a connection through both.
func start(t *testing.T) (*redistest.Server, *redistest.Proxy, *net.TCPConn) {
	t.Helper()
	srv := redistest.Start(t)
	p := redistest.NewProxy(t, srv.Addr())
	c := dial(t, p.Addr())
	works(t, c)
	return srv, p, c
}

// works checks that a connection carries a request and its answer.
func works(t *testing.T, c net.Conn) {
	t.Helper()
	got, err := ask(c, "PING")
	require.NoError(t, err)
	require.Equal(t, "+PONG\r\n", got)
}

// silent checks that nothing comes, not even the end, for a while.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
}

// isCut checks that a connection has been reset.
func isCut(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func send(t *testing.T, c net.Conn, command string) {
	t.Helper()
	_, err := fmt.Fprintf(c, "%s\r\n", command)
	require.NoError(t, err)
}

// eventually waits for the server to have these keys.
func eventually(t *testing.T, srv *redistest.Server, keys ...string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, keys, srv.Keys("*"))
	}, 10*time.Second, time.Millisecond)
}

func TestProxyDelay(t *testing.T) {
	_, p, c := start(t)
	const oneWay = 50 * time.Millisecond
	p.Delay(oneWay)
	begin := time.Now()
	works(t, c)
	assert.GreaterOrEqual(t, time.Since(begin), 2*oneWay)

	// What leaves later does not overtake.
	send(t, c, "ECHO slow")
	p.Delay(0)
	send(t, c, "ECHO fast")
	got, err := io.ReadAll(io.LimitReader(c, 20))
	require.NoError(t, err)
	assert.Equal(t, "$4\r\nslow\r\n$4\r\nfast\r\n", string(got))
}

// The line takes up what comes while earlier bytes are under way: more than the
// sockets' buffers hold is sent before anything has arrived.
func TestProxyDelayKeepsThroughput(t *testing.T) {
	_, p, c := start(t)
	p.Delay(time.Hour)
	_, err := c.Write(make([]byte, 16<<20))
	require.NoError(t, err)
}

func TestProxyCarriesMuch(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { // sends back what it gets, then the end
		c, err := l.Accept()
		if assert.NoError(t, err) {
			defer c.Close()
			assert.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
			_, err = io.Copy(c, c)
			assert.NoError(t, err)
		}
	})
	p := redistest.NewProxy(t, l.Addr().String())
	p.Delay(5 * time.Millisecond)
	c := dial(t, p.Addr())
	data := make([]byte, 8<<20)
	_, _ = rand.Read(data)
	wg.Go(func() {
		_, err := c.Write(data)
		assert.NoError(t, err)
		assert.NoError(t, c.CloseWrite())
	})
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
}

func TestProxyHold(t *testing.T) {
	srv, p, c := start(t)
	gone := dial(t, p.Addr())
	works(t, gone)
	p.Hold(true)
	send(t, c, "SET a 1")
	send(t, gone, "SET b 1")
	require.NoError(t, gone.Close())
	silent(t, c)
	require.Empty(t, srv.Keys("*"))
	p.Hold(false)
	got, err := bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", got)
	eventually(t, srv, "a", "b")
}

func TestProxyBlackHole(t *testing.T) {
	srv, p, c := start(t)
	idle := dial(t, p.Addr())
	works(t, idle)
	p.BlackHole(true)
	late := dial(t, p.Addr())
	send(t, c, "SET a 1")
	send(t, late, "SET b 1")
	silent(t, c)
	silent(t, late)
	require.Empty(t, srv.Keys("*"))

	p.BlackHole(false)
	isCut(t, c)
	isCut(t, late)
	works(t, idle)
	works(t, dial(t, p.Addr()))
	require.Empty(t, srv.Keys("*"))
}

// In a black hole neither side sees the other one go, and even a dead server
// seems to be there.
func TestProxyBlackHoleHidesTheEnd(t *testing.T) {
	srv, p, c := start(t)
	gone := dial(t, p.Addr())
	_, err := ask(gone, "CLIENT SETNAME gone")
	require.NoError(t, err)
	known := func() bool { return strings.Contains(srv.Client().ClientList(t.Context()).Val(), "name=gone") }
	require.True(t, known())
	p.BlackHole(true)
	require.NoError(t, gone.Close())
	silent(t, c) // time enough for the proxy to see the end of gone
	require.True(t, known())
	srv.Kill()
	silent(t, c)
	late := dial(t, p.Addr())
	silent(t, late)
	p.BlackHole(false)
	isCut(t, c)
	isCut(t, late)
}

func TestProxyDropReplies(t *testing.T) {
	srv, p, c := start(t)
	idle := dial(t, p.Addr())
	works(t, idle)
	p.DropReplies(true)
	send(t, c, "SET a 1")
	eventually(t, srv, "a")
	late := dial(t, p.Addr())
	send(t, late, "SET b 1")
	eventually(t, srv, "a", "b")
	silent(t, c)
	silent(t, late)
	p.DropReplies(false)
	isCut(t, c)
	isCut(t, late)
	works(t, idle)
}

func TestProxyRefuse(t *testing.T) {
	_, p, c := start(t)
	addr := p.Addr()
	p.Refuse(true)
	p.Refuse(true)
	require.ErrorIs(t, ping(addr), syscall.ECONNREFUSED)
	works(t, c)
	p.Refuse(false)
	p.Refuse(false)
	require.Equal(t, addr, p.Addr())
	require.NoError(t, ping(addr))
}

func TestProxyCutAll(t *testing.T) {
	_, p, c := start(t)
	other := dial(t, p.Addr())
	works(t, other)
	p.CutAll()
	isCut(t, c)
	isCut(t, other)
	works(t, dial(t, p.Addr()))
}

func TestProxyOfDeadServer(t *testing.T) {
	srv, p, c := start(t)
	srv.Kill()
	_, err := c.Read(make([]byte, 1))
	require.Error(t, err, "the server's end is passed on")
	require.ErrorIs(t, ping(p.Addr()), syscall.ECONNRESET)
	srv.Restart()
	works(t, dial(t, p.Addr()))
}

// Whatever it does, a proxy ends with its test: see TestMain.
func TestProxyEndsWithTheTest(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(*redistest.Proxy)
	}{
		{"delay", func(p *redistest.Proxy) { p.Delay(time.Hour) }},
		{"hold", func(p *redistest.Proxy) { p.Hold(true) }},
		{"black hole", func(p *redistest.Proxy) { p.BlackHole(true) }},
		{"drop replies", func(p *redistest.Proxy) { p.DropReplies(true) }},
		{"refuse", func(p *redistest.Proxy) { p.Refuse(true) }},
		{"server paused", func(*redistest.Proxy) {}},
	} {
		var addr string
		t.Run(tc.name, func(t *testing.T) {
			srv, p, c := start(t)
			addr = p.Addr()
			tc.set(p)
			srv.Pause()
			send(t, c, "PING")
		})
		assert.ErrorIs(t, ping(addr), syscall.ECONNREFUSED)
	}
}

func TestProxyLose(t *testing.T) {
	srv, p, c := start(t)
	other := dial(t, srv.Addr())
	send(t, c, "SUBSCRIBE inbox")
	r := bufio.NewReader(c)
	for range 6 { // the acknowledgement
		_, err := r.ReadString('\n')
		require.NoError(t, err)
	}
	p.Lose("secret")
	publish := func(message string) {
		got, err := ask(other, "PUBLISH inbox "+message)
		require.NoError(t, err)
		require.Equal(t, ":1\r\n", got)
	}
	publish("secret")
	silent(t, c)
	publish("open")
	var got []string
	for range 7 {
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		got = append(got, line)
	}
	require.Equal(t, "open\r\n", got[6], "the connection goes on without what was lost")
	p.Lose("")
	works(t, other)
}
