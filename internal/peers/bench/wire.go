package main

import (
	"bytes"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// A wire counts the commands that this process sends, on all its connections.
// The server can't be asked: it counts a script's commands like a client's.
type wire struct{ sent, pings atomic.Int64 }

// tap returns a connection whose commands are counted. It is a *net.TCPConn in
// all else: clients look at its socket.
func (w *wire) tap(conn net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return &tapped{TCPConn: conn.(*net.TCPConn), requests: requests{wire: w}}, nil
}

type tapped struct {
	*net.TCPConn
	requests requests // written by one goroutine at a time, as every client does
}

func (c *tapped) Write(b []byte) (int, error) {
	c.requests.pass(b) // first: the answer is not to come before the count
	return c.TCPConn.Write(b)
}

// requests reads what a client sends, as in "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
// however it is cut into writes.
type requests struct {
	wire *wire
	line []byte // what has come of a line
	body int    // what is missing of an argument, its line end included
	name bool   // the next argument is the command's name, which comes as a line
}

func (r *requests) pass(b []byte) {
	for len(b) > 0 {
		if r.body > 0 {
			n := min(r.body, len(b))
			r.body -= n
			b = b[n:]
			continue
		}
		end := bytes.IndexByte(b, '\n') + 1
		if end == 0 {
			r.line = append(r.line, b...)
			return
		}
		line := b[:end]
		if len(r.line) > 0 {
			line = append(r.line, line...)
		}
		r.take(line)
		r.line = r.line[:0]
		b = b[end:]
	}
}

// take is given a line: how many arguments follow, how long the next one is, or
// a name.
func (r *requests) take(line []byte) {
	switch {
	case line[0] == '*':
		r.name = true
	case line[0] != '$':
		r.wire.count(string(bytes.TrimSpace(line)))
		r.name = false
	case !r.name:
		n, _ := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
		r.body = n + len("\r\n")
	}
}

func (w *wire) count(name string) {
	switch {
	case strings.EqualFold(name, "ping"):
		w.pings.Add(1)
	case !opening(name):
		w.sent.Add(1)
	}
}

// opening reports whether a command, or a subcommand as in client|setinfo, only
// ever opens a connection.
func opening(name string) bool {
	name, _, _ = strings.Cut(name, "|")
	return slices.ContainsFunc([]string{"hello", "client", "cluster"}, func(s string) bool { return strings.EqualFold(s, name) })
}
