package main

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// A locker is how a peer locks a key. It may be called concurrently.
type locker interface {
	// Lock waits until it holds the key or ctx is done. Held ends when the lock is
	// lost, if the peer tells, and may end with ctx.
	Lock(ctx context.Context, key string) (held context.Context, unlock func() error, err error)
}

// A peer is a library, set up as somebody who knows it would.
type peer struct {
	name   string // as -only and the tables have it
	module string // whose version the tables tell
	renews bool   // a key is held for longer than its TTL without further ado
	open   func(setup) (locker, error)
}

// ours is the peer that the others are compared with.
const ours = "reqlock"

// All of them, in the order of the tables.
var peers = []peer{
	{ours, "", true, openReqlock},
	{"redsync", "github.com/go-redsync/redsync/v4", false, openRedsync},
	{"bsm/redislock", "github.com/bsm/redislock", false, openBSM},
	{"rueidislock", "github.com/redis/rueidis", true, openRueidislock},
}

// limit is what no lock on Redis can reach: it needs no Redis.
var limit = peer{"sync.Mutex", "", true, openMutex}

// ttl is that of every lock.
const ttl = 10 * time.Second

// A setup is what all peers are given.
type setup struct {
	redis  string
	ttl    time.Duration
	pool   int  // connections of a go-redis client; 0: its default
	noLoop bool // CLIENT TRACKING's NOLOOP works with scripts: from Redis 7.0.5 on
	wire   *wire
}

// client returns a go-redis client as its documentation makes one, dialer
// included, but that the wire counts.
func (s setup) client() *redis.Client {
	o := &redis.Options{Addr: s.redis, PoolSize: s.pool}
	dial := redis.NewDialer(&redis.Options{DialTimeout: 5 * time.Second})
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return s.wire.tap(dial(ctx, network, addr))
	}
	return redis.NewClient(o)
}
