package redislock

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// A topology knows which server has a key.
type topology interface {
	// home returns the server that has a key. It takes callTimeout at most, and no
	// time once it has succeeded.
	home(ctx context.Context, key string) (*server, error)

	// follow returns, without waiting for anything once home has succeeded, the server to
	// ask next for a key of which the one that was asked last has said err, which may be
	// nil. It is the same, unless err says where the key has gone, or it is known to have
	// another home by now; nil where it has gone, and nobody can follow.
	follow(key string, asked *server, err error) *server

	// outage is as backend.outage.
	outage(key string) <-chan struct{}

	// doubt is told that a server has failed: keys may have another home by now.
	doubt()

	close() error
}

// topologyOf returns how to open the topology of a client, or what is wrong with it.
func topologyOf(client redis.UniversalClient) (open func(*Locker) topology, err error) {
	switch c := client.(type) {
	case *redis.Client:
		if c == nil {
			return nil, errors.New("redislock: client is nil")
		}
		return func(l *Locker) topology {
			s := newSingle(l, c, alone)
			s.begin(c.Options())
			return s
		}, nil
	case *redis.ClusterClient:
		if c == nil {
			return nil, errors.New("redislock: client is nil")
		}
		return func(l *Locker) topology { return newCluster(l, c.Options()) }, nil
	default:
		return nil, fmt.Errorf("redislock: client of type %T: must be a *redis.Client or a *redis.ClusterClient", client)
	}
}

// single is the topology of one server, or of one master that Sentinel names.
type single struct{ *server }

func newSingle(l *Locker, client *redis.Client, k kind) single {
	return single{newServer(l, nil, client.Options(), redis.NewClient, client, k)}
}

func (s single) home(context.Context, string) (*server, error) { return s.server, nil }
func (s single) outage(string) <-chan struct{}                 { return s.breaker.outage.wait() }
func (single) doubt()                                          {}

func (s single) follow(_ string, _ *server, err error) *server {
	if onItsWay(err) {
		return nil
	}
	return s.server
}
