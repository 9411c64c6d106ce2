package redistest_test

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
