package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports are picked from below the ranges that systems take the ports of
// outgoing connections and of ":0" from (32768 up on Linux, 49152 up on
// macOS). So nobody takes one by chance while its server is down, and a client
// that keeps dialling it cannot end up connected to itself. A cluster's bus,
// which is on the port plus 10000, stays below as well.
const (
	firstPort = 11_000
	lastPort  = 20_999
)

// listen listens on a free port.
func listen(t testing.TB) net.Listener {
	t.Helper()
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", loopback(firstPort+rand.IntN(lastPort-firstPort+1))); err == nil {
			return l
		}
	}
	t.Fatalf("redistest: find a free port: %v", err)
	return nil
}

// freePort returns a port that is free now.
func freePort(t testing.TB) int {
	t.Helper()
	l := listen(t)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
