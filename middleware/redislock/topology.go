package redislock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// A topology knows which server has a key.
type topology interface {
	// home returns the server that has a key. It takes callTimeout at most, and no
	// time once it has succeeded.
	home(ctx context.Context, key string) (*server, error)

	// follow returns, without waiting for anything, the server to ask next for a key of
	// which the one that was asked last has said err. It is the same, unless err says
	// where the key has gone, or it is known to have another home by now.
	follow(key string, asked *server, err error) *server

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
			return single{newServer(l, c.Options(), redis.NewClient, c, false)}
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

func (s single) home(context.Context, string) (*server, error) { return s.server, nil }
func (s single) follow(string, *server, error) *server         { return s.server }
func (s single) doubt()                                        {}

// An errand is a request that knows which of a server's trips it makes, and whether
// it has been sent to the wrong server.
type errand interface {
	request
	trips(on *server) *trips
	elsewhere() error // what the server said of that, or nil
}

// send has e carried out by the server that has the key. One that has moved to
// another server is followed; one that is just being moved is waited for, for as
// long as a call takes. Patience is as for trips.do.
func (l *Locker) send(ctx context.Context, key string, patience time.Duration, e errand) error {
	start := time.Now()
	on, err := l.topology.home(ctx, key)
	if err != nil {
		return err
	}
	var pauses backoff
	for again := 0; ; again++ {
		if err := e.trips(on).do(ctx, patience, e); err != nil {
			return err
		}
		said := e.elsewhere()
		if said == nil || time.Since(start) > callTimeout {
			return nil
		}
		next := l.topology.follow(key, on, said)
		if again > 0 || next == on {
			if err := l.sleep(ctx, pauses.pause(-1)); err != nil {
				return err
			}
		}
		on = next
	}
}
