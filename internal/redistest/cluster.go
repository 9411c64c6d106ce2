package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A Cluster is a Redis Cluster of three masters with one replica each. Its
// methods must be called from the test's goroutine, as those of [Server];
// Addrs, Servers and Client may be called from any.
type Cluster struct {
	t       testing.TB
	servers []*Server
	ids     map[*Server]string
}

// StartCluster starts the six and stops them when the test ends. It returns
// when all slots are served, every node knows that, and the replicas are in
// sync. Each config is a line of redis.conf for all nodes, as in [Start].
//
// A node that does not answer has failed after 2 s (by default 15 s), and
// however old its data is, its replica takes over a second later. While a slot
// has no master the whole cluster refuses commands, as is Redis' default; for
// the other slots to be served, add "cluster-require-full-coverage no".
//
// A master that is back by [Server.Restart] before it is replaced stays the
// master, and its replica throws away what it has lost.
func StartCluster(t testing.TB, config ...string) *Cluster {
	t.Helper()
	c := &Cluster{
		t: t,
		servers: start(t, 2*len(shards), standalone, slices.Concat([]string{
			"cluster-enabled yes", // its bus is on the port plus 10000
			"cluster-node-timeout 2000",
			"cluster-replica-validity-factor 0",
		}, replicated, config)),
		ids: make(map[*Server]string),
	}
	ctx, cancel := context.WithTimeout(context.Background(), tolerance)
	defer cancel()
	if err := c.form(ctx); err != nil {
		t.Fatalf("redistest: form a cluster: %v", err)
	}
	eventually(t, "the cluster", func() error { return c.complete(ctx) })
	return c
}

// shards are the slots of the first three servers, from and to. The next three
// are their replicas, in the same order.
var shards = [3][2]int{{0, 5460}, {5461, 10922}, {10923, slots - 1}}

// form makes a cluster of nodes that know nothing of each other.
func (c *Cluster) form(ctx context.Context) error {
	for i, s := range c.servers {
		id, err := s.client.Do(ctx, "cluster", "myid").Text()
		if err != nil {
			return err
		}
		c.ids[s] = id
		// The slots come first: a master serves none until 2 s after it has any.
		if i < len(shards) {
			if err := s.client.ClusterAddSlotsRange(ctx, shards[i][0], shards[i][1]).Err(); err != nil {
				return err
			}
		}
		// Different from the start, or nodes would have to resolve it.
		if err := s.client.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return err
		}
	}
	// Each meets each, which is faster than gossip.
	for i, s := range c.servers {
		for _, other := range c.servers[:i] {
			if err := s.client.ClusterMeet(ctx, "127.0.0.1", fmt.Sprint(other.port)).Err(); err != nil {
				return err
			}
		}
	}
	for i, s := range c.servers[len(shards):] {
		id := c.ids[c.servers[i]]
		// It must have met its master.
		eventually(c.t, "nodes to meet", func() error { return s.client.ClusterReplicate(ctx, id).Err() })
	}
	return nil
}

// complete returns nil once all nodes see the cluster that StartCluster
// promises.
func (c *Cluster) complete(ctx context.Context) error {
	for _, s := range c.servers {
		info, err := s.client.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		if !strings.Contains(info, "cluster_state:ok") {
			return fmt.Errorf("%s says %s", s.Addr(), info)
		}
	}
	views := c.views()
	if len(views) != len(c.servers) {
		return fmt.Errorf("%d nodes answer", len(views))
	}
	for i, master := range c.servers[:len(shards)] {
		replica := c.servers[len(shards)+i]
		for s, v := range views {
			if len(v) != len(c.servers) {
				return fmt.Errorf("%s knows %d nodes", s.Addr(), len(v))
			}
			m, r := v[c.ids[master]], v[c.ids[replica]]
			if !m.connected || !slices.Equal(m.slots, shards[i:i+1]) || !r.connected || r.master != m.id {
				return fmt.Errorf("%s sees %v and %v", s.Addr(), m, r)
			}
		}
		if err := inSync(ctx, master, replica); err != nil {
			return err
		}
	}
	return nil
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addrs(c.servers) }

// Servers returns all nodes: the three first masters, in the order of their
// slots, and then their replicas in the same order.
func (c *Cluster) Servers() []*Server { return slices.Clone(c.servers) }

// Masters returns the masters that have slots, in the order of their first. One
// that is down is a master until it is replaced.
func (c *Cluster) Masters() []*Server {
	c.t.Helper()
	var masters []*Server
	now := c.now()
	for slot := range slots {
		if m := c.server(now.owner(slot)); m != nil && !slices.Contains(masters, m) {
			masters = append(masters, m)
		}
	}
	return masters
}

// Owner returns the master of the key's slot. It may be down.
func (c *Cluster) Owner(key string) *Server {
	c.t.Helper()
	owner := c.server(c.now().owner(slotOf(key)))
	if owner == nil {
		c.t.Fatalf("redistest: find the owner of %q: no node answers", key)
	}
	return owner
}

// Replica returns a replica of this master, and fails the test if it has none.
// The replica may be down.
func (c *Cluster) Replica(of *Server) *Server {
	c.t.Helper()
	now := c.now()
	for _, s := range c.servers {
		if now[c.ids[s]].master == c.ids[of] {
			return s
		}
	}
	c.t.Fatalf("redistest: find a replica of %s: it has none", of.Addr())
	return nil
}

// Failover begins a planned failover (CLUSTER FAILOVER) of a master that is up,
// to its replica. AwaitOwner waits for its end.
func (c *Cluster) Failover(of *Server) {
	c.t.Helper()
	// A master ignores the request of who is, as far as it knows, not its replica.
	eventually(c.t, "the replica to begin a failover", func() error {
		views := c.views()
		for _, r := range c.servers {
			if n := views[of][c.ids[r]]; n.master == c.ids[of] && n.connected && views[r][c.ids[of]].connected {
				ctx, cancel := context.WithTimeout(context.Background(), answerTime)
				defer cancel()
				if err := inSync(ctx, of, r); err != nil {
					return err
				}
				return r.client.ClusterFailover(ctx).Err()
			}
		}
		return fmt.Errorf("%s has no replica", of.Addr())
	})
}

// AwaitOwner waits until the key's slot has a master other than this one, all
// nodes that answer agree on it, and it carries out writes for the slot. It
// returns that master.
func (c *Cluster) AwaitOwner(key string, not *Server) *Server {
	c.t.Helper()
	slot := slotOf(key)
	// To delete what does not exist is a write that leaves no trace.
	nothing := keyIn("redistest-", func(s int) bool { return s == slot })
	var owner *Server
	eventually(c.t, "another owner", func() error {
		owner = nil
		for s, v := range c.views() {
			o := c.server(v.owner(slot))
			if o == nil || o == not || owner != nil && o != owner {
				return fmt.Errorf("for %s the owner is %v", s.Addr(), v.owner(slot))
			}
			owner = o
		}
		if owner == nil {
			return errors.New("no node answers")
		}
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		return owner.client.Del(ctx, nothing).Err()
	})
	return owner
}

// Key returns a key, the prefix and a number, whose slot this master has.
func (c *Cluster) Key(owner *Server, prefix string) string {
	c.t.Helper()
	now := c.now()
	key := keyIn(prefix, func(slot int) bool { return now.owner(slot).id == c.ids[owner] })
	if key == "" {
		c.t.Fatalf("redistest: find a key for %s with the prefix %q: there is none", owner.Addr(), prefix)
	}
	return key
}

// Client returns a client of the cluster. It is closed when the test ends.
func (c *Cluster) Client(opts ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	o := &redis.ClusterOptions{Addrs: c.Addrs()}
	for _, opt := range opts {
		opt(o)
	}
	client := redis.NewClusterClient(o)
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}
