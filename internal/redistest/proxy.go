package redistest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy forwards TCP connections to a server and makes them as bad as a test
// asks: it adds latency, holds, swallows, refuses, cuts. What is set holds for
// open connections and for new ones, until it is set otherwise; the settings
// are independent of each other. Each takes effect before its method returns,
// except on bytes that are being written to a socket in that moment.
//
// Its methods may be called concurrently, Refuse from the test's goroutine
// only.
type Proxy struct {
	t      testing.TB
	addr   string // where the proxy listens
	target string

	wg sync.WaitGroup // every goroutine

	mu          sync.Mutex
	listener    net.Listener // nil while refusing
	closed      bool
	links       map[*link]struct{}
	delay       time.Duration
	held        chan struct{} // while holding; closed when that ends
	blackHole   bool
	dropReplies bool
	lose        []byte // what a reply contains that is lost; nil: none is
	lateText    []byte // what a reply contains that is late; nil: none is
	late        time.Duration
}

// NewProxy starts a proxy on a free port of 127.0.0.1 that forwards to addr.
// It closes its connections and ends with the test, after the cleanups
// registered later. While nobody listens at addr it accepts connections and
// cuts them at once.
func NewProxy(t testing.TB, addr string) *Proxy {
	t.Helper()
	l := listen(t)
	p := &Proxy{t: t, addr: l.Addr().String(), target: addr, listener: l, links: make(map[*link]struct{})}
	t.Cleanup(p.close)
	p.wg.Go(func() { p.accept(l) })
	return p
}

// Addr returns the host:port at which the proxy listens, always the same one.
func (p *Proxy) Addr() string { return p.addr }

// Delay adds d, in each direction, to the way of every byte that the proxy
// receives from now on: a round trip takes 2·d longer. Like a long line, and
// unlike a slow one, it takes up the next bytes while the earlier ones are
// still on their way, and keeps them in order. Connecting is not delayed.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Hold keeps everything back, in both directions, until it is turned off;
// nothing is lost. A connection's end is kept back as well: the server carries
// out, then, what a client that has long given up had sent.
func (p *Proxy) Hold(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case on && p.held == nil:
		p.held = make(chan struct{})
	case !on && p.held != nil:
		close(p.held)
		p.held = nil
	}
}

// BlackHole swallows everything, in both directions, as a partition of the
// network does. Connections are accepted and stay open, and neither side sees
// the other one close. A stream with a gap cannot go on, so when this is turned
// off the connections that have lost something are cut, and so are those
// accepted meanwhile.
func (p *Proxy) BlackHole(on bool) { p.swallow(&p.blackHole, on) }

// DropReplies lets requests through and swallows what the server answers: the
// work is done and nobody is told. Turning it off cuts the connections that
// have lost something, as BlackHole does.
func (p *Proxy) DropReplies(on bool) { p.swallow(&p.dropReplies, on) }

// Lose swallows each reply that contains text, and nothing else: nobody sees
// that it is missing. It is for messages, which come alone; of a reply that
// comes with others, those are lost as well. "" ends it.
func (p *Proxy) Lose(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = needle(text)
}

// Late adds d to the way of each reply that contains text, and so to what comes
// after it on its connection. "" ends it.
func (p *Proxy) Late(text string, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lateText, p.late = needle(text), d
}

func needle(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

func (p *Proxy) swallow(setting *bool, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ends := *setting && !on
	*setting = on
	if !ends {
		return
	}
	for l := range p.links {
		if l.lost {
			l.cut()
		}
	}
}

// CutAll resets every open connection, on both sides.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Refuse stops listening, so that new connections are refused, or listens
// again. Open connections stay: see CutAll.
func (p *Proxy) Refuse(on bool) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case on && p.listener != nil:
		_ = p.listener.Close()
		p.listener = nil
	case !on && p.listener == nil && !p.closed:
		l, err := net.Listen("tcp", p.addr)
		if err != nil {
			p.t.Fatalf("redistest: listen again: %v", err)
		}
		p.listener = l
		p.wg.Go(func() { p.accept(l) })
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Refuse(true)
	p.CutAll()
	p.wg.Wait()
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		c, err := listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				p.t.Errorf("redistest: proxy: accept: %v", err)
			}
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		l := &link{proxy: p, client: c, cancel: cancel}
		p.mu.Lock()
		p.links[l] = struct{}{}
		// Whether a connection gets anywhere is settled when it is accepted:
		// connected later, the server would see a stream without its beginning.
		l.lost = p.blackHole
		run := l.serve
		if l.lost {
			run = l.discard
		}
		if p.closed {
			l.cut()
		}
		p.mu.Unlock()
		p.wg.Go(func() {
			run(ctx)
			p.mu.Lock()
			defer p.mu.Unlock()
			l.close()
			delete(p.links, l)
		})
	}
}
