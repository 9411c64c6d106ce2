package redislock

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"golang.org/x/sync/singleflight"
)

// A cluster is the topology of a Redis Cluster. go-redis keeps the map of its slots.
// Each master is asked as a single server is: go-redis' own client of a Cluster
// repeats commands whose fate is unknown, and one trip of it waits for several
// masters, of which one may not answer.
type cluster struct {
	locker  *Locker
	slots   *redis.ClusterClient // knows which master has a key; nothing else is asked of it
	open    newClient            // the user's
	health  *health              // of what slots asks
	breaker *breaker             // as long as there is no map

	known   atomic.Bool // there is a map of the slots
	loading singleflight.Group
	doubted chan struct{}
	running sync.WaitGroup

	refreshing context.Context // of each refresh
	stop       context.CancelFunc

	mu      sync.RWMutex
	options *redis.Options     // of a master but for the address; nil: none is known yet
	masters map[string]*master // by address
	closed  bool
}

// A master is a server that has slots, or had some not long ago.
type master struct {
	*server
	seen time.Time   // the last time that it had slots, or was asked; guarded by cluster.mu
	used atomic.Bool // it was asked since
}

const (
	// refreshEvery is how old the map of the slots gets where nothing fails.
	refreshEvery = 10 * time.Second
	// refreshPause is how long after one refresh the next one begins, however much
	// fails.
	refreshPause = 100 * time.Millisecond
	// refreshBound is how long one refresh takes at most: each node that swallows what
	// it is asked takes opTimeout of it, until one answers.
	refreshBound = 5 * time.Second
	// keepMaster is how long a server that has no slots any more is kept. By then
	// nobody asks it.
	keepMaster = time.Minute
)

func newCluster(l *Locker, options *redis.ClusterOptions) *cluster {
	c := &cluster{
		locker:  l,
		open:    options.NewClient,
		health:  newHealth("redis cluster: ", l.observe),
		doubted: make(chan struct{}, 1),
		masters: make(map[string]*master),
	}
	c.breaker = newBreaker(c.health, func() error {
		if err := c.load(context.Background()); unreachable(err) {
			return err
		}
		return nil
	})
	o := *options
	o.NewClient = c.newNode
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
	o.ContextTimeoutEnabled = true
	o.DialerRetries = 1
	o.DialTimeout = bounded(o.DialTimeout)
	o.ReadTimeout = bounded(o.ReadTimeout)
	o.WriteTimeout = bounded(o.WriteTimeout)
	o.MinIdleConns = 0
	o.ClusterStateReloadInterval = time.Hour // see run
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	c.slots = redis.NewClusterClient(&o)
	c.refreshing, c.stop = context.WithCancel(context.Background())
	c.running.Go(c.run)
	return c
}

// newNode is how slots makes its clients, and where the options of a master are from.
func (c *cluster) newNode(o *redis.Options) *redis.Client {
	c.mu.Lock()
	if c.options == nil {
		first := *o
		c.options = &first
	}
	c.mu.Unlock()
	o.Dialer = dialBounded(dialer(o), o.PoolSize, newConnections(o))
	return c.open(o)
}

// add adds a master. The caller holds c.mu.
func (c *cluster) add(addr string, now time.Time) *server {
	if c.closed || c.options == nil {
		return nil
	}
	o := *c.options
	o.Addr, o.NodeAddress = addr, addr
	m := &master{server: newServer(c.locker, c, &o, c.open, nil, inCluster), seen: now}
	m.begin(&o)
	c.masters[addr] = m
	return m.server
}

// at returns the master at an address, or nil after close.
func (c *cluster) at(addr string) *server {
	c.mu.RLock()
	m := c.masters[addr]
	c.mu.RUnlock()
	if m != nil {
		if !m.used.Load() {
			m.used.Store(true)
		}
		return m.server
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.masters[addr]; m != nil {
		return m.server
	}
	return c.add(addr, time.Now())
}

func (c *cluster) home(ctx context.Context, key string) (*server, error) {
	if !c.known.Load() {
		if err := c.loadFirst(ctx); err != nil {
			return nil, err
		}
	}
	node, err := c.slots.MasterForKey(ctx, key)
	if err != nil {
		return nil, unavailable(err)
	}
	if on := c.at(node.Options().Addr); on != nil {
		return on, nil
	}
	return nil, errClosed
}

func (c *cluster) follow(key string, asked *server, err error) *server {
	if addr, ok := movedTo(err); ok {
		if on := c.at(addr); on != nil {
			on.restarts.inherit(asked.restarts)
			return on
		}
	}
	if on, err := c.home(context.Background(), key); err == nil { // known by now
		return on
	}
	return asked
}

// movedTo returns where a server of a Cluster says that a key has its home.
func movedTo(err error) (addr string, ok bool) {
	if addr, ok = redis.IsMovedError(err); !ok {
		return "", false
	}
	colon := strings.LastIndexByte(addr, ':') // an IPv6 address has no brackets there
	if colon <= 0 {
		return "", false
	}
	return net.JoinHostPort(strings.Trim(addr[:colon], "[]"), addr[colon+1:]), true
}

func (c *cluster) outage(key string) <-chan struct{} {
	if !c.known.Load() {
		return c.breaker.outage.wait()
	}
	on, err := c.home(context.Background(), key)
	if err != nil {
		return nil
	}
	return on.breaker.outage.wait()
}

func (c *cluster) close() error {
	c.mu.Lock()
	c.closed = true
	var servers []*server
	for _, m := range c.masters {
		servers = append(servers, m.server)
	}
	c.mu.Unlock()
	c.stop()
	c.breaker.close()
	c.running.Wait()
	return errors.Join(closeAll(servers), c.slots.Close())
}
