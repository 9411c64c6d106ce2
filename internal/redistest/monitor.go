package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Monitor records every command that a [Server] carries out, in order, from
// [Server.Monitor] on. Its methods must be called from the test's goroutine.
type Monitor struct {
	t    testing.TB
	feed net.Conn // brings MONITOR's lines
	echo net.Conn // takes the marks; see sync
	n    int      // marks sent

	marks chan string   // marks seen in the feed; closed when the feed ends
	ended chan struct{} // closed when read has returned

	mu    sync.Mutex
	calls Calls
	err   error // why the feed ended
}

// Monitor starts recording and stops when the test t ends. The server must
// stay up meanwhile. MONITOR makes a server slower: it is nothing for
// benchmarks.
func (s *Server) Monitor(t testing.TB) *Monitor {
	t.Helper()
	m := &Monitor{t: t, marks: make(chan string, 1), ended: make(chan struct{})}
	m.feed = dial(t, s.Addr())
	m.echo = dial(t, s.Addr())
	feed := bufio.NewReader(m.feed)
	_ = m.feed.SetDeadline(time.Now().Add(patience))
	_, err := m.feed.Write([]byte("MONITOR\r\n"))
	if err == nil {
		var answer string
		if answer, err = feed.ReadString('\n'); err == nil && answer != "+OK\r\n" {
			err = errors.New(answer)
		}
	}
	if err != nil {
		t.Fatalf("redistest: start monitor: %v", err)
	}
	_ = m.feed.SetDeadline(time.Time{})
	go m.read(feed)
	t.Cleanup(m.close)
	return m
}

// Calls returns the commands recorded so far: at least those answered before
// Calls was called.
func (m *Monitor) Calls() Calls {
	m.t.Helper()
	if err := m.sync(); err != nil {
		m.t.Fatalf("redistest: read monitor: %v", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return append(Calls(nil), m.calls...)
}

// Stop ends the recording and returns it, as Calls does.
func (m *Monitor) Stop() Calls {
	m.t.Helper()
	calls := m.Calls()
	m.close()
	return calls
}

// sync sends a mark and waits until the feed has it: the server carries out
// and reports one command after the other, so all that came before it has then
// been read.
func (m *Monitor) sync() error {
	m.n++
	mark := fmt.Sprintf("mark-%d", m.n)
	if _, err := fmt.Fprintf(m.echo, "ECHO %s\r\n", mark); err != nil {
		return err
	}
	select {
	case seen, open := <-m.marks:
		if !open {
			return m.err // written before marks was closed
		}
		if seen != mark {
			return fmt.Errorf("%s instead of %s", seen, mark)
		}
		return nil
	case <-time.After(patience):
		return errors.New("the server does not answer")
	}
}

func (m *Monitor) read(feed *bufio.Reader) {
	defer close(m.ended)
	defer close(m.marks)
	own := m.echo.LocalAddr().String()
	for {
		line, err := feed.ReadString('\n')
		var c Call
		if err == nil {
			c, err = parseCall(strings.TrimSuffix(line, "\r\n"))
		}
		if err != nil {
			m.err = err
			return
		}
		if c.Client == own {
			select {
			case m.marks <- c.Args[1]:
			default: // nobody waits any more: the test has failed
			}
			continue
		}
		m.mu.Lock()
		m.calls = append(m.calls, c)
		m.mu.Unlock()
	}
}

func (m *Monitor) close() {
	_ = m.feed.Close()
	_ = m.echo.Close()
	<-m.ended
}

func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatalf("redistest: connect: %v", err)
	}
	return c
}
