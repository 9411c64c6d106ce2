package join_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// echo takes the connection over, as a websocket's handler does, and sends each line back.
func echo(t *testing.T, w http.ResponseWriter) {
	conn, rw, err := w.(http.Hijacker).Hijack()
	if !assert.NoError(t, err) {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	for {
		_ = rw.Flush()
		line, err := rw.ReadString('\n')
		if err != nil {
			return
		}
		_, _ = io.WriteString(rw, line)
	}
}

func TestH31Upgrade(t *testing.T) {
	s := serve(t, setup{})
	for range 2 { // one after the other
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nX-User: u\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		require.NoError(t, err)
		c := s.next()
		done := c.begin(func(w http.ResponseWriter, _ *http.Request) { echo(t, w) })
		in := bufio.NewReader(conn)
		resp, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		assert.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
		for i := range 3 {
			line := fmt.Sprintf("line %d\n", i)
			_, err = io.WriteString(conn, line)
			require.NoError(t, err)
			got, err := in.ReadString('\n')
			require.NoError(t, err)
			assert.Equal(t, line, got)
		}
		require.NoError(t, conn.Close())
		s.await(done, "the end of the connection")
		c.end()
	}
	s.works()
}

// That a request ends in a connection of its own its handler knows alone.
func TestH31HijackWithoutUpgrade(t *testing.T) {
	raw := func(text string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
			_ = rw.Flush()
			_ = conn.Close()
		}
	}
	s := serve(t, setup{})
	leader, c := s.lead(s.get("leader"))
	all := append([]*visitor{leader}, s.join(2)...)
	texts := make(map[string]bool)
	for i := range all {
		if i > 0 {
			c = s.next()
		}
		c.do(raw(fmt.Sprint("call ", i)))
		c.end()
	}
	for _, text := range readAll(all) {
		texts[text] = true
	}
	assert.Equal(t, map[string]bool{"call 0": true, "call 1": true, "call 2": true}, texts)
	s.watched(0)
	s.works()
}

// A response that was begun before the connection is taken over is broken for followers.
func TestH31HijackAfterTheHead(t *testing.T) {
	s := serve(t, setup{})
	leader, c := s.lead(s.get("leader"))
	follower := s.join(1)[0]
	c.write("half")
	follower.reads("half")
	c.do(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(rw, "4\r\nraw \r\n0\r\n\r\n")
		_ = rw.Flush()
		_ = conn.Close()
	})
	c.end()
	follower.broken()
	assert.Equal(t, "halfraw ", leader.whole())
	s.works()
}

// The connection stays usable when its handler has returned.
func TestH31HijackAfterTheHeadOutlivesTheHandler(t *testing.T) {
	s := serve(t, setup{})
	leader, c := s.lead(s.get("leader"))
	c.write("half")
	var conn net.Conn
	c.do(func(w http.ResponseWriter, _ *http.Request) {
		var err error
		conn, _, err = w.(http.Hijacker).Hijack()
		assert.NoError(t, err)
	})
	c.end()
	s.watched(0)
	s.works() // the key is free, so the guard is through with the other
	_, err := io.WriteString(conn, "4\r\nraw \r\n0\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	assert.Equal(t, "halfraw ", leader.whole())
}
