package redistest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// masterName is what the sentinels call the master they watch.
const masterName = "mymaster"

// A Sentinel is one master with two replicas, watched by three sentinels, two
// of which decide on a failover. Its methods must be called from the test's
// goroutine, as those of [Server]; Name, Addrs, Servers and Client may be
// called from any.
type Sentinel struct {
	t         testing.TB
	servers   []*Server
	sentinels []*Server
}

// StartSentinel starts the six and stops them when the test ends. It returns
// when the replicas are in sync and all have found each other. Each config is
// a line of redis.conf for the three redis-servers, as in [Start].
//
// Sentinels wait as little as a busy machine allows: a master is down after 1 s
// without an answer (by default 30 s). One that has been replaced and still, or
// again, takes itself for the master is made a replica some 3 s after it is
// seen (by default 8 to 18 s); until then it accepts writes, which are lost.
//
// A master that is back by [Server.Restart] within that second stays the
// master, and its replicas throw away what it has lost.
func StartSentinel(t testing.TB, config ...string) *Sentinel {
	t.Helper()
	s := &Sentinel{t: t, servers: start(t, 3, standalone, slices.Concat(replicated, config))}
	s.replicate()
	s.sentinels = start(t, 3, sentinel, []string{
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", masterName, s.servers[0].port),
		"sentinel down-after-milliseconds " + masterName + " 1000",
		"sentinel failover-timeout " + masterName + " 3000",
		"sentinel parallel-syncs " + masterName + " 2",
	})
	// They find each other by what they publish. The first PING must come long
	// before down-after has passed, or every new connection seems down for a
	// moment. But a replica is fit for a master only if what INFO, asked once a
	// second, says of it is younger than 5 PINGs.
	s.tune("publish-period", 100, "ping-period", 400)
	eventually(t, "sentinels", s.complete)
	s.tune("publish-period", 500, "info-period", 1000, "tilt-period", 2000)
	return s
}

// replicate makes the first server the master of the others, for good.
func (s *Sentinel) replicate() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	master, replicas := s.servers[0], s.servers[1:]
	for _, r := range replicas {
		if err := errors.Join(
			r.client.ReplicaOf(ctx, "127.0.0.1", fmt.Sprint(master.port)).Err(),
			r.client.ConfigRewrite(ctx).Err(),
		); err != nil {
			s.t.Fatalf("redistest: make %s a replica: %v", r.Addr(), err)
		}
	}
	eventually(s.t, "replicas", func() error { return inSync(ctx, master, replicas...) })
}

// tune sets periods of the sentinels, in milliseconds, that are no part of
// their configuration.
func (s *Sentinel) tune(periods ...any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, srv := range s.sentinels {
		if err := srv.client.Do(ctx, append([]any{"sentinel", "debug"}, periods...)...).Err(); err != nil {
			s.t.Fatalf("redistest: set %v of a sentinel: %v", periods, err)
		}
	}
}

// complete returns nil once each sentinel is connected to all five others and
// knows that they work.
func (s *Sentinel) complete() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, srv := range s.sentinels {
		replicas, err := known(ctx, srv, "replicas")
		if err != nil {
			return err
		}
		others, err := known(ctx, srv, "sentinels")
		if err != nil {
			return err
		}
		// What is down, or not connected yet, has more flags than its kind.
		replicas = slices.DeleteFunc(replicas, func(r map[string]string) bool {
			return r["flags"] != "slave" || r["master-link-status"] != "ok"
		})
		others = slices.DeleteFunc(others, func(o map[string]string) bool { return o["flags"] != "sentinel" })
		n, m := len(replicas), len(others)
		if n != len(s.servers)-1 || m != len(s.sentinels)-1 {
			return fmt.Errorf("a sentinel knows %d replicas and %d other sentinels", n, m)
		}
	}
	return nil
}

// known returns what a sentinel knows of the master's replicas or sentinels.
func known(ctx context.Context, sentinel *Server, who string) ([]map[string]string, error) {
	cmd := redis.NewMapStringStringSliceCmd(ctx, "sentinel", who, masterName)
	_ = sentinel.client.Process(ctx, cmd)
	return cmd.Result()
}

// Name returns the master's name, for [redis.FailoverOptions].
func (s *Sentinel) Name() string { return masterName }

// Addrs returns the addresses of the sentinels.
func (s *Sentinel) Addrs() []string { return addrs(s.sentinels) }

// Servers returns the three redis-servers, the first master first.
func (s *Sentinel) Servers() []*Server { return slices.Clone(s.servers) }

// Master returns the server that most of the sentinels that answer name as the
// master. It may be down.
func (s *Sentinel) Master() *Server {
	s.t.Helper()
	var master *Server
	eventually(s.t, "a master", func() error {
		named := s.named()
		votes := make(map[*Server]int)
		for _, srv := range named {
			if votes[srv]++; 2*votes[srv] > len(named) {
				master = srv
				return nil
			}
		}
		return fmt.Errorf("%d sentinels answer and do not agree", len(named))
	})
	return master
}

// Replicas returns the servers that Master does not.
func (s *Sentinel) Replicas() []*Server {
	s.t.Helper()
	master := s.Master()
	return slices.DeleteFunc(s.Servers(), func(srv *Server) bool { return srv == master })
}

// AwaitMaster waits until the sentinels, all that answer, name a master other
// than this one, and that server takes itself for the master, and returns it.
func (s *Sentinel) AwaitMaster(not *Server) *Server {
	s.t.Helper()
	var master *Server
	eventually(s.t, "another master", func() error {
		named := slices.Collect(maps.Values(s.named()))
		if len(named) < 2 || slices.ContainsFunc(named, func(srv *Server) bool { return srv == not || srv != named[0] }) {
			return fmt.Errorf("the sentinels name %v", addrs(named))
		}
		master = named[0]
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		role, err := master.client.Do(ctx, "role").Slice()
		if err == nil && role[0] != "master" {
			err = fmt.Errorf("%s is a %v", master.Addr(), role[0])
		}
		return err
	})
	return master
}

// Failover begins a planned failover (SENTINEL FAILOVER), which takes a second
// or two: AwaitMaster waits for its end.
func (s *Sentinel) Failover() {
	s.t.Helper()
	eventually(s.t, "a sentinel to begin a failover", func() error {
		// One that still takes a replica for a master would turn it back.
		for _, srv := range s.sentinels {
			if err := settled(srv); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		return s.sentinels[0].client.Do(ctx, "sentinel", "failover", masterName).Err()
	})
}

// settled returns nil if the sentinel knows of each replica that it is down or
// in sync.
func settled(sentinel *Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	replicas, err := known(ctx, sentinel, "replicas")
	for _, r := range replicas {
		down := strings.Contains(r["flags"], "s_down")
		inSync := r["flags"] == "slave" && r["role-reported"] == "slave" && r["master-link-status"] == "ok"
		if !down && !inSync {
			return fmt.Errorf("%s is neither down nor in sync", r["name"])
		}
	}
	return err
}

// Client returns a client that follows the master. It is closed when the test
// ends.
func (s *Sentinel) Client(opts ...func(*redis.FailoverOptions)) *redis.Client {
	o := &redis.FailoverOptions{MasterName: masterName, SentinelAddrs: s.Addrs()}
	for _, opt := range opts {
		opt(o)
	}
	c := redis.NewFailoverClient(o)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// named returns which server each sentinel that answers takes for the master.
func (s *Sentinel) named() map[*Server]*Server {
	return askAll(s.sentinels, func(ctx context.Context, c *redis.Client) (*Server, error) {
		addr, err := c.Do(ctx, "sentinel", "get-master-addr-by-name", masterName).StringSlice()
		if err != nil {
			return nil, err
		}
		return at(s.servers, net.JoinHostPort(addr[0], addr[1]))
	})
}
