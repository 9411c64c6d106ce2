package redislock_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// picky starts a proxy as some clouds put before their Redis: of what clients
// send, the named commands, in lower case, do not get through. answer is what a
// client is told instead; with "" it is told nothing, and with "close" its
// connection is closed.
func picky(t testing.TB, server, answer string, commands ...string) (addr string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn // nil: the proxy has ended
	ended := false
	track := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		conns = append(conns, c)
		if ended {
			_ = c.Close()
		}
	}
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		ended = true
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			track(client)
			running.Go(func() {
				defer func() { _ = client.Close() }()
				upstream, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				track(upstream)
				running.Go(func() {
					_, _ = io.Copy(client, upstream)
					_ = client.Close()
				})
				defer func() { _ = upstream.Close() }()
				for requests := bufio.NewReader(client); ; {
					name, raw, err := readCommand(requests)
					if err != nil {
						return
					}
					switch {
					case !slices.Contains(commands, name):
						_, err = io.WriteString(upstream, raw)
					case answer == "close":
						return
					case answer != "":
						_, err = io.WriteString(client, fmt.Sprintf(answer, strings.ToUpper(name))+"\r\n")
					}
					if err != nil {
						return
					}
				}
			})
		}
	})
	return listener.Addr().String()
}

// readCommand reads a command and returns its name, in lower case, and its bytes.
func readCommand(r *bufio.Reader) (name, raw string, err error) {
	var b strings.Builder
	line := func() (n int, err error) {
		l, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		b.WriteString(l)
		return strconv.Atoi(strings.TrimSpace(l[1:]))
	}
	words, err := line()
	for i := 0; i < words && err == nil; i++ {
		var size int
		if size, err = line(); err != nil {
			break
		}
		word := make([]byte, size+len("\r\n"))
		_, err = io.ReadFull(r, word)
		b.Write(word)
		if i == 0 {
			name = strings.ToLower(strings.TrimSpace(string(word)))
		}
	}
	return name, b.String(), err
}
