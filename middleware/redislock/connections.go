package redislock

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// connections are those to one server, of all of its clients.
type connections struct {
	// followMaster says that a connection leads to whatever server Sentinel names the
	// master when it is opened. The client that Sentinel tells of a new one is the
	// user's, so it shows here when the next connection is opened: the others, which
	// lead to another server, are then cut. See also server.watchMaster.
	followMaster bool

	ended atomic.Int64 // how many have been closed

	mu    sync.Mutex
	open  map[*connection]struct{}
	cutAt time.Time // all
}

// failoverAddr is what a client of redis.NewFailoverClient has for its address.
const failoverAddr = "FailoverClient"

func newConnections(options *redis.Options) *connections {
	return &connections{
		followMaster: options.Addr == failoverAddr,
		open:         make(map[*connection]struct{}),
	}
}

// add returns conn, which has just been opened, as one of these.
func (c *connections) add(conn net.Conn) net.Conn {
	if _, ok := conn.(undialled); ok {
		return conn
	}
	if addr := conn.RemoteAddr(); c.followMaster && addr != nil { // a Dialer may not say
		c.cut(addr)
	}
	added := &connection{Conn: conn, of: c}
	c.mu.Lock()
	c.open[added] = struct{}{}
	c.mu.Unlock()
	if socket, ok := conn.(syscall.Conn); ok { // go-redis looks there whether the server has closed it
		return socketConnection{added, socket}
	}
	return added
}

// cutAll closes all, but not those that others have opened just after they were cut:
// they may lead to the same server, and many would cut each other's.
func (c *connections) cutAll() {
	c.mu.Lock()
	recently := time.Since(c.cutAt) < cutPause
	if !recently {
		c.cutAt = time.Now()
	}
	c.mu.Unlock()
	if !recently {
		c.cut(nil)
	}
}

const cutPause = 100 * time.Millisecond

// cut closes all that do not lead to an address, which may be nil.
func (c *connections) cut(but net.Addr) {
	var old []*connection
	c.mu.Lock()
	for conn := range c.open {
		if but == nil || conn.RemoteAddr() == nil || conn.RemoteAddr().String() != but.String() {
			old = append(old, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range old {
		conn.abort()
	}
}

type connection struct {
	net.Conn
	of   *connections
	once sync.Once
}

func (c *connection) Close() error {
	c.end()
	return c.Conn.Close()
}

// abort closes the connection without a word to the server, which would have to
// take it.
func (c *connection) abort() {
	c.end()
	if secured, ok := c.Conn.(*tls.Conn); ok {
		_ = secured.NetConn().Close()
		return
	}
	_ = c.Conn.Close()
}

func (c *connection) end() {
	c.once.Do(func() {
		c.of.ended.Add(1)
		c.of.mu.Lock()
		delete(c.of.open, c)
		c.of.mu.Unlock()
	})
}

type socketConnection struct {
	*connection
	syscall.Conn
}
