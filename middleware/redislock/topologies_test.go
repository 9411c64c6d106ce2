package redislock_test

import (
	"context"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/locktest"
)

// proxies stand between a client and the servers of a topology.
type proxies map[string]*redistest.Proxy // by the address of the server

func proxiesOf(t *testing.T, addrs ...string) proxies {
	p := make(proxies)
	for _, addr := range addrs {
		p[addr] = redistest.NewProxy(t, addr)
	}
	return p
}

// dial is the Dialer of a client whose servers tell it of each other.
func (p proxies) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if proxy, ok := p[addr]; ok {
		addr = proxy.Addr()
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

func (p proxies) blackHole(on bool) {
	for _, proxy := range p {
		proxy.BlackHole(on)
	}
}

func TestClusterConformance(t *testing.T) {
	cluster := redistest.StartCluster(t)
	locktest.Run(t, func(t *testing.T) locktest.Fixture {
		far := proxiesOf(t, cluster.Addrs()...)
		admin := cluster.Client()
		return locktest.Fixture{
			Locker: open(t, cluster.Client(func(o *redis.ClusterOptions) { o.Dialer = far.dial })),
			Peer:   open(t, cluster.Client()),
			Lose:   func(key string) { require.NoError(t, admin.Del(t.Context(), lockKey(key)).Err()) },
			Break:  func() { far.blackHole(true) },
			Heal:   func() { far.blackHole(false) },
		}
	})
}

func TestSentinelConformance(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	locktest.Run(t, func(t *testing.T) locktest.Fixture {
		var addrs []string
		for _, s := range sentinel.Servers() {
			addrs = append(addrs, s.Addr())
		}
		far := proxiesOf(t, append(addrs, sentinel.Addrs()...)...)
		admin := sentinel.Client()
		return locktest.Fixture{
			Locker: open(t, sentinel.Client(func(o *redis.FailoverOptions) { o.Dialer = far.dial })),
			Peer:   open(t, sentinel.Client()),
			Lose:   func(key string) { require.NoError(t, admin.Del(t.Context(), lockKey(key)).Err()) },
			Break:  func() { far.blackHole(true) },
			Heal:   func() { far.blackHole(false) },
		}
	})
}
