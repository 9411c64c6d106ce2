package redistest

import (
	"bytes"
	"context"
	"io"
	"net"
	"time"
)

// A link is one connection through a [Proxy].
type link struct {
	proxy  *Proxy
	client net.Conn
	cancel context.CancelFunc

	// guarded by proxy.mu
	server net.Conn // nil until connected
	lost   bool     // has lost something, or was never connected
}

// A parcel is what one read returned, on its way to the other side. Without
// data it is the end of the stream.
type parcel struct {
	due  time.Time
	data []byte
}

const (
	parcelSize = 16 << 10
	// maxParcels bounds what is on its way. When it is reached the proxy reads
	// no more and the sender's socket fills up, as on a real line.
	maxParcels = 4096
)

// serve connects to the server and returns when both directions have ended or
// the link was cut.
func (l *link) serve(ctx context.Context) {
	server, ok := l.connect(ctx)
	if !ok {
		return
	}
	replied := make(chan struct{})
	l.proxy.wg.Go(func() {
		defer close(replied)
		l.forward(ctx, server, l.client, true)
	})
	l.forward(ctx, l.client, server, false)
	<-replied
}

// connect cuts the link where it fails.
func (l *link) connect(ctx context.Context) (net.Conn, bool) {
	server, err := new(net.Dialer).DialContext(ctx, "tcp", l.proxy.target)
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if err != nil {
		l.cut()
		return nil, false
	}
	l.server = server
	if ctx.Err() != nil { // cut while it was connecting
		l.cut()
		return nil, false
	}
	return server, true
}

// discard stands in for serve in a black hole.
func (l *link) discard(context.Context) { _, _ = io.Copy(io.Discard, l.client) }

// forward moves one direction's bytes and then its end.
func (l *link) forward(ctx context.Context, from, to net.Conn, replies bool) {
	line := make(chan parcel, maxParcels)
	l.proxy.wg.Go(func() { l.receive(ctx, from, line, replies) })
	for {
		var p parcel
		select {
		case p = <-line:
		case <-ctx.Done():
			return
		}
		delivered, err := l.arrive(ctx, p, replies)
		switch {
		case err != nil:
			return
		case p.data == nil && !delivered:
			<-ctx.Done() // the other side never learns that this one has gone
			return
		case p.data == nil:
			_ = to.(*net.TCPConn).CloseWrite()
			return
		case !delivered:
			continue
		}
		if _, err := to.Write(p.data); err != nil {
			l.proxy.mu.Lock()
			l.cut()
			l.proxy.mu.Unlock()
			return
		}
	}
}

// receive puts what it reads on the line. It does so ahead of what is still
// under way: latency is not to cost throughput.
func (l *link) receive(ctx context.Context, from net.Conn, line chan<- parcel, replies bool) {
	buf := make([]byte, parcelSize)
	send := func(data []byte) {
		p := l.proxy
		p.mu.Lock()
		due := time.Now().Add(p.delay)
		if replies && p.lateText != nil && bytes.Contains(data, p.lateText) {
			due = due.Add(p.late)
		}
		p.mu.Unlock()
		select {
		case line <- parcel{due, data}:
		case <-ctx.Done():
		}
	}
	for {
		n, err := from.Read(buf)
		if n > 0 {
			send(bytes.Clone(buf[:n]))
		}
		if err != nil {
			send(nil)
			return
		}
	}
}

// arrive waits until a parcel has reached the other end of the line and
// reports whether it is delivered there or lost.
func (l *link) arrive(ctx context.Context, what parcel, reply bool) (delivered bool, err error) {
	if d := time.Until(what.due); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	p := l.proxy
	for {
		p.mu.Lock()
		held := p.held
		if held == nil {
			lost := p.blackHole || reply && p.dropReplies
			l.lost = l.lost || lost
			lost = lost || reply && p.lose != nil && bytes.Contains(what.data, p.lose)
			p.mu.Unlock()
			return !lost, nil
		}
		p.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// cut resets both connections. The caller holds proxy.mu.
func (l *link) cut() {
	for _, c := range []net.Conn{l.client, l.server} {
		if c != nil {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
	}
	l.close()
}

// close closes both connections; what they still have to send goes out. The
// caller holds proxy.mu.
func (l *link) close() {
	l.cancel()
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}
