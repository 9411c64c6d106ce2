package redislock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// quorum is the backend where a key is held on most of several masters that know
// nothing of each other, as in the Redlock algorithm
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/), which has
// no fences: here the masters agree on them.
//
// A caller that wants the lock asks all of them at once, with a token for each attempt. It
// has the lock when most have given it, and most have then noted the highest fence that
// any of those has seen: whoever comes next finds it on one of his own most at least. What
// it has of an attempt that comes to nothing it gives back, and tries again when it is
// told that the lock is free, or after a while.
type quorum struct {
	locker   *Locker
	members  []*server
	majority int // of the members

	extensions line
	noMajority *signal // so many members do not answer

	mu     sync.Mutex
	away   int // members that do not answer
	closed bool
	asking sync.WaitGroup // members
}

// NewQuorum returns a Locker on several Redis servers that know nothing of each
// other, at least three: a key is held by whoever holds it on most of them, as in the
// Redlock algorithm. The Locker works for as long as most servers answer, and none
// of them needs a replica. What it costs, and what it can't rule out, is in the
// package comment.
//
// What is said of the client in [New] holds for each of clients, which must be of type
// *redis.Client and lead to different servers.
func NewQuorum(clients []redis.UniversalClient, opts ...Option) (*Locker, error) {
	c, errs := configure(opts)
	if len(clients) < 3 {
		errs = append(errs, fmt.Errorf("redislock: quorum of %d clients: must be three or more", len(clients)))
	}
	var masters []*redis.Client
	for i, client := range clients {
		master, ok := client.(*redis.Client)
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("redislock: client %d of %d is of type %T: must be a *redis.Client", i+1, len(clients), client))
		case master == nil:
			errs = append(errs, fmt.Errorf("redislock: client %d of %d is nil", i+1, len(clients)))
		case slices.ContainsFunc(masters, func(m *redis.Client) bool { return sameServer(m.Options(), master.Options()) }):
			errs = append(errs, fmt.Errorf("redislock: client %d of %d leads to the same server as another: %s", i+1, len(clients), master.Options().Addr))
		default:
			masters = append(masters, master)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return open(c, len(masters), func(l *Locker) backend { return newQuorum(l, masters) }), nil
}

// sameServer compares addresses, which is all there is to compare. A client by
// Sentinel has none of its own.
func sameServer(a, b *redis.Options) bool {
	return a.Addr == b.Addr && a.Network == b.Network && a.Addr != failoverAddr
}

func newQuorum(l *Locker, masters []*redis.Client) *quorum {
	q := &quorum{locker: l, majority: len(masters)/2 + 1, noMajority: newSignal()}
	q.extensions.extendAll = q.extendAll
	for _, m := range masters {
		on := newSingle(l, m, inQuorum).server
		on.breaker.changed = q.memberChanged
		q.members = append(q.members, on)
	}
	for i, on := range q.members { // who tells of themselves from now on
		on.begin(masters[i].Options())
	}
	return q
}

func (q *quorum) line(*lease) *line { return &q.extensions }

func (q *quorum) outage(string) <-chan struct{} { return q.noMajority.wait() }

// memberChanged is told that a member does not answer any more, or answers again.
func (q *quorum) memberChanged(away bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if away {
		q.away++
	} else {
		q.away--
	}
	q.noMajority.set(q.denied(q.away))
}

func (q *quorum) listen(ctx context.Context, _ *lease) error {
	opened := make(chan error, len(q.members))
	for _, on := range q.members {
		go func() { opened <- on.inbox.open(ctx) }() // ends within openInbox
	}
	var err error
	for range q.members {
		if e := <-opened; e != nil { // the same of all
			err = e
		}
	}
	return err
}

func (q *quorum) unregister(s *lease) {
	for _, on := range q.members {
		on.inbox.unregister(s)
	}
}

func (q *quorum) abandon(s *lease, tombstone time.Duration) {
	for _, on := range q.members {
		on.cleanup.add(givenUpBy(s, s.token, tombstone))
	}
}

func (q *quorum) interrupt(ctx context.Context, key string) (bool, error) {
	n := namesOf(q.locker.prefix, key)
	vs := q.poll(ctx, callTimeout, ballot{ // of all: what comes late would interrupt the next holder
		kind:    interrupt,
		command: func(on *server, _ int) command { return on.scripts.interrupt.with(&n.lock, &n.interrupt) },
	})
	if !q.decided(vs) {
		return false, q.unavailable(vs)
	}
	return vs.count(yes) >= q.majority, nil
}

// silentAt is when so many members are silent that there is no majority.
func (q *quorum) silentAt(*lease) time.Time {
	return q.bySilence()[len(q.members)-q.majority].health.silentAt()
}

func (q *quorum) claimSilence(_ *lease, now time.Time) bool {
	return q.bySilence()[len(q.members)-q.majority].health.claimSilence(now)
}

// bySilence returns the members, the one that has been silent for longest first.
func (q *quorum) bySilence() []*server {
	sorted := slices.Clone(q.members)
	slices.SortFunc(sorted, func(a, b *server) int { return a.health.silentAt().Compare(b.health.silentAt()) })
	return sorted
}

func (q *quorum) close() error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.asking.Wait()
	return closeAll(q.members)
}
