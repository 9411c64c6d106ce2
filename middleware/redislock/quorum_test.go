package redislock_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/locktest"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// openQuorum returns a Locker on several servers that is closed when the test ends.
func openQuorum(t testing.TB, addrs []string, opts ...redislock.Option) *redislock.Locker {
	t.Helper()
	clients := make([]redis.UniversalClient, len(addrs))
	for i, addr := range addrs {
		clients[i] = dial(t, addr)
	}
	l, err := redislock.NewQuorum(clients, append([]redislock.Option{unobserved}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func addrsOf(servers []*redistest.Server) (addrs []string) {
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

func TestQuorumConformance(t *testing.T) {
	servers := redistest.StartMasters(t, 5)
	locktest.Run(t, func(t *testing.T) locktest.Fixture {
		lines := make(proxies)
		var far []string
		for _, s := range servers {
			lines[s.Addr()] = redistest.NewProxy(t, s.Addr())
			far = append(far, lines[s.Addr()].Addr())
		}
		return locktest.Fixture{
			Locker: openQuorum(t, far),
			Peer:   openQuorum(t, addrsOf(servers)),
			Lose: func(key string) {
				for _, s := range servers {
					require.NoError(t, s.Client().Del(t.Context(), lockKey(key)).Err())
				}
			},
			Break: func() { lines.blackHole(true) },
			Heal:  func() { lines.blackHole(false) },
		}
	})
}
