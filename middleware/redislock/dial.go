package redislock

import (
	"context"
	"fmt"
	"net"
	"time"
)

// A dialFunc opens a connection: what redis.Options.Dialer is.
type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialBounded ends when its context does, which go-redis' own dialer does not
// where it sets up TLS: a connection that comes too late is closed.
//
// It makes a failure show when the connection is first used. Told of it at
// once, go-redis would write a line to its own log for every request of an
// outage, and after as many failures as the pool has connections it would refuse
// to dial for up to a second, which is more than some leases have left.
//
// Dials that nobody waits for any more are bounded in number, far above what a
// pool of n needs: they must not keep out those which are waited for.
func dialBounded(dial dialFunc, n int, c *connections) dialFunc {
	dialling := make(chan struct{}, 16*n)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, opTimeout)
		defer cancel()
		select {
		case dialling <- struct{}{}:
		case <-ctx.Done():
			return undialled{context.Cause(ctx)}, nil
		}
		conn := dialUntil(ctx, dial, network, addr, func() { <-dialling })
		return c.add(conn), nil
	}
}

// dialUntil returns when ctx is done, whatever dial does, and calls over when dial has
// ended: that has the user's own timeout.
func dialUntil(ctx context.Context, dial dialFunc, network, addr string, over func()) net.Conn {
	dialled := make(chan net.Conn)
	go func() {
		defer over()
		conn := dialOnce(ctx, dial, network, addr)
		select {
		case dialled <- conn:
		case <-ctx.Done():
			_ = conn.Close()
		}
	}()
	select {
	case conn := <-dialled:
		return conn
	case <-ctx.Done():
		return undialled{context.Cause(ctx)}
	}
}

// dialOnce makes a connection of whatever dial does, panics included.
func dialOnce(ctx context.Context, dial dialFunc, network, addr string) (conn net.Conn) {
	defer func() {
		if p := recover(); p != nil {
			conn = undialled{fmt.Errorf("dialer panicked: %v", p)}
		}
	}()
	conn, err := dial(ctx, network, addr)
	if err != nil {
		return undialled{err}
	}
	return conn
}

// undialled is a connection that was never there.
type undialled struct{ err error }

// A dialError is what an undialled connection fails with. It does not unwrap,
// since go-redis hands on what is inside an error that it meets when it sets up
// a connection.
type dialError struct{ error }

func (c undialled) Read([]byte) (int, error)         { return 0, dialError{c.err} }
func (c undialled) Write([]byte) (int, error)        { return 0, dialError{c.err} }
func (c undialled) Close() error                     { return nil }
func (c undialled) LocalAddr() net.Addr              { return nil }
func (c undialled) RemoteAddr() net.Addr             { return nil }
func (c undialled) SetDeadline(time.Time) error      { return nil }
func (c undialled) SetReadDeadline(time.Time) error  { return nil }
func (c undialled) SetWriteDeadline(time.Time) error { return nil }
