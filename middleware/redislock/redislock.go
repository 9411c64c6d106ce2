package redislock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"github.com/reqlock/reqlock/internal/turn"
	"github.com/reqlock/reqlock/middleware/lock"
)

// A Locker holds leases on keys in Redis. Make one for each process, with [New] or
// [NewQuorum]; all of its methods may be called concurrently.
type Locker struct {
	config
	backend backend
	servers int // that each key is on

	redsync    *redsync.Redsync
	turns      turn.Queue[*lease]
	tries      singleflight.Group
	renewals   *renewals
	longestTTL longest

	infoRefused sync.Once // the operator was told

	closing sync.Once
	closed  chan struct{}

	entering sync.Mutex     // callers, once closed
	callers  sync.WaitGroup // of Acquire
}

var _ lock.Locker = (*Locker)(nil)

// New returns a Locker on the Redis that client leads to: a single server, the master
// that Sentinel names, or a Cluster. It reads the options of client and makes clients of
// its own from them; client itself is not used and stays yours to close. New waits for
// nothing: a Redis that cannot be reached shows as [lock.ErrUnavailable] when a key is
// acquired.
//
// Addresses, credentials, TLS, Dialer, OnConnect and a Cluster's NewClient carry over;
// of PoolSize see the package comment; a Limiter does not. Hooks that a *redis.Client
// has by then run around what the Locker asks. They must be quick, since no timeout of
// ours ends one, and a hook that fails is an outage. Those of a *redis.ClusterClient
// can't be had: add them in its NewClient.
//
// client is a *redis.Client or a *redis.ClusterClient. Any other is an error, and so is
// a bad option; all problems are reported at once.
func New(client redis.UniversalClient, opts ...Option) (*Locker, error) {
	c, errs := configure(opts)
	topology, err := topologyOf(client)
	if err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return open(c, 1, func(l *Locker) backend { return newHomes(l, topology) }), nil
}

// open returns a Locker with the backend that start returns, where each key is on so
// many servers.
func open(c config, servers int, start func(*Locker) backend) *Locker {
	l := &Locker{
		config:   c,
		servers:  servers,
		redsync:  redsync.New(pools(servers)...),
		renewals: newRenewals(),
		closed:   make(chan struct{}),
	}
	l.backend = start(l)
	l.turns.Quit = func(s *lease) <-chan struct{} { return l.backend.outage(s.names.lock) }
	return l
}

// Interrupt asks the holder of key to stop: see [lock.Locker]. A holder in this
// process is told at once, one in another at its next renewal, which is at most
// a third of its TTL away.
func (l *Locker) Interrupt(ctx context.Context, key string) (bool, error) {
	if key == "" {
		return false, errors.New("redislock: interrupt: the key is empty")
	}
	if s, ok := l.turns.Head(key); ok && l.renewals.interrupt(s) {
		return true, nil
	}
	return l.backend.interrupt(ctx, key)
}

// Close ends everything that the Locker does, and closes its connections. Call
// it when no guarded handler runs any more, that is after http.Server.Shutdown.
// A lease that is still held ends with [lock.ErrLost], and its key becomes free
// when its TTL has passed; who waits or comes later gets [lock.ErrUnavailable].
// Close takes five seconds at most, all of them only where Redis does not
// answer; calls after the first do nothing.
func (l *Locker) Close() error {
	var err error
	l.closing.Do(func() {
		l.entering.Lock()
		close(l.closed)
		l.entering.Unlock()
		l.renewals.close()
		l.awaitCallers() // what they leave behind is cleaned up
		err = l.backend.close()
	})
	return err
}

// enter notes a caller of Acquire. false: it is too late.
func (l *Locker) enter() bool {
	l.entering.Lock()
	defer l.entering.Unlock()
	if l.isClosed() {
		return false
	}
	l.callers.Add(1)
	return true
}

// awaitCallers waits until the callers of Acquire have left, which a call that is
// under way holds up for callTimeout at most.
func (l *Locker) awaitCallers() {
	left := make(chan struct{})
	go func() { l.callers.Wait(); close(left) }()
	timer := time.NewTimer(callTimeout)
	defer timer.Stop()
	select {
	case <-left:
	case <-timer.C:
	}
}

func (l *Locker) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}
