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
	locker *Locker
	slots  *redis.ClusterClient // knows which master has a key; nothing else is asked of it
	open   newClient            // the user's
	health *health              // of what slots asks

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
	seen time.Time // the last time that it had slots; guarded by cluster.mu
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

// run keeps the map of the slots fresh, until the Locker is closed.
func (c *cluster) run() {
	for {
		_ = c.load(context.Background())
		if c.locker.sleep(context.Background(), refreshPause) != nil {
			return
		}
		timer := time.NewTimer(refreshEvery)
		select {
		case <-timer.C:
		case <-c.doubted:
		case <-c.locker.closed:
		}
		timer.Stop()
	}
}

func (c *cluster) doubt() {
	select {
	case c.doubted <- struct{}{}:
	default:
	}
}

// load asks for the map of the slots, for callTimeout at most, and shares the answer.
func (c *cluster) load(ctx context.Context) error {
	loaded := c.loading.DoChan("", func() (any, error) { return nil, c.refresh() }) // ends with close
	timer := time.NewTimer(callTimeout)
	defer timer.Stop()
	select {
	case l := <-loaded:
		return l.Err
	case <-timer.C:
		return unavailable(context.DeadlineExceeded)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *cluster) refresh() error {
	ctx, cancel := context.WithTimeout(c.refreshing, refreshBound)
	defer cancel()
	var mu sync.Mutex
	var addrs []string
	// Before it calls anybody, it asks for the map.
	err := c.slots.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		addrs = append(addrs, node.Options().Addr)
		return nil
	})
	if c.locker.isClosed() {
		return errClosed
	}
	if err != nil {
		c.health.report(ctx, failed(acquire, err))
		return unavailable(err)
	}
	c.health.report(ctx, result{op: acquire, outcome: done})
	c.note(addrs)
	c.known.Store(true)
	return nil
}

// note takes the addresses of the masters. Where there is a new one, leases may have
// another home, and be unknown there: all are extended at once.
func (c *cluster) note(addrs []string) {
	now := time.Now()
	added := false
	var old []*server
	c.mu.Lock()
	for _, addr := range addrs {
		if m, ok := c.masters[addr]; ok {
			m.seen = now
		} else {
			added = c.add(addr, now) != nil && c.known.Load() || added
		}
	}
	for addr, m := range c.masters {
		switch {
		case m.seen.Equal(now):
			continue
		case now.Sub(m.seen) > keepMaster:
			delete(c.masters, addr)
			old = append(old, m.server)
		}
		for _, other := range c.masters { // one of which has its slots
			if other.seen.Equal(now) {
				other.restarts.inherit(m.restarts)
			}
		}
	}
	c.mu.Unlock()
	for _, on := range old {
		_ = on.close()
	}
	if added {
		c.locker.renewals.hurry(nil)
	}
}

// add adds a master. The caller holds c.mu.
func (c *cluster) add(addr string, now time.Time) *server {
	if c.closed || c.options == nil {
		return nil
	}
	o := *c.options
	o.Addr, o.NodeAddress = addr, addr
	m := &master{newServer(c.locker, &o, c.open, nil, forms{inCluster: true}), now}
	m.topology = c
	c.masters[addr] = m
	return m.server
}

// at returns the master at an address, or nil after close.
func (c *cluster) at(addr string) *server {
	c.mu.RLock()
	m := c.masters[addr]
	c.mu.RUnlock()
	if m != nil {
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
		if err := c.load(ctx); err != nil {
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

func (c *cluster) close() error {
	c.stop()
	c.running.Wait()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	var all sync.WaitGroup
	errs := make(chan error, len(c.masters))
	for _, m := range c.masters {
		all.Go(func() { errs <- m.server.close() })
	}
	all.Wait()
	close(errs)
	err := c.slots.Close()
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}
