package redislock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server is one Redis that has keys: the one that there is, whichever Sentinel
// names the master, or a master of a Cluster. What is known of one says nothing
// about another, and who asks one that does not answer holds up nobody who asks
// another.
type server struct {
	locker   *Locker
	topology topology // of which it is part
	health   *health
	breaker  *breaker

	// Two clients of the same server. However many ask, those who hold always
	// have connections to renew and release with. The prober has another.
	askClient, holdClient *redis.Client
	connections           *connections // of all
	hold                  commander    // holdClient, with the user's hooks
	asks, interrupts      trips        // by askClient
	releases              trips        // by hold
	prober                *prober

	scripts    scripts
	restarts   *restarts
	inbox      *inbox
	extensions line
	extending  atomic.Int32 // trips with extensions, in a quorum
	cleanup    *cleanup
	warming    sync.WaitGroup
	panicked   sync.Once // the log tells of a hook
}

// newServer returns the server that options, which are the user's, lead to, as part of
// t, nil being a topology of its own. hooked, which may be nil, is the user's client. What
// goes on by itself is yet to begin.
func newServer(l *Locker, t topology, options *redis.Options, open newClient, hooked *redis.Client, k kind) *server {
	on := &server{locker: l, topology: t}
	if t == nil {
		on.topology = single{on}
	}
	on.health = newHealth(nameOf(options, l.servers), l.observe)
	on.breaker = newBreaker(on.health, func() error { return on.prober.probe() })
	on.connections = newConnections(options)
	on.restarts = &restarts{
		created: time.Now(),
		ended:   &on.connections.ended,
		longest: &l.longestTTL,
		noticed: on.restarted,
		refused: func(err error) { l.infoRefused.Do(func() { on.health.degraded(err) }) },
	}
	on.scripts.init(k)
	on.extensions.extendAll = on.extendAll
	limit := max(1, options.PoolSize/2)
	on.askClient = derive(options, open, limit+2, on.connections, on.restarts.admit) // one for interrupts, one for restarts
	on.holdClient = derive(options, open, limit+maxExtending+1, on.connections, nil) // one for clean-up
	on.prober = newProber(on, options, open, hooked)
	on.restarts.client = on.askClient
	ask := withHooks(hooked, on.askClient)
	on.hold = withHooks(hooked, on.holdClient)
	on.asks = trips{server: on, client: ask, limit: limit, prepare: on.restarts.settle}
	on.interrupts = trips{server: on, client: ask, limit: 1, prepare: on.restarts.settle}
	on.releases = trips{server: on, client: on.hold, limit: limit}
	on.inbox = newInbox(on, k)
	on.cleanup = &cleanup{server: on, wake: make(chan struct{}, 1)}
	on.breaker.onClose = on.cleanup.hurry
	return on
}

// begin begins what goes on by itself.
func (on *server) begin(options *redis.Options) {
	if on.connections.followMaster {
		on.warming.Go(func() { on.watchMaster(options.Dialer) })
	}
	on.warm(func(ctx context.Context) error {
		_, err := on.restarts.look(ctx, on.askClient, false)
		return err
	})
	for range 2 { // a release, a renewal
		on.warm(func(ctx context.Context) error { return on.holdClient.Ping(ctx).Err() })
	}
}

// nameOf is how the operator reads of a server that has keys together with others, if
// that is more than one.
func nameOf(o *redis.Options, of int) string {
	switch {
	case of > 1:
		return fmt.Sprintf("redis at %s, one of %d masters: ", o.Addr, of)
	case o.Addr == failoverAddr:
		return "redis master by Sentinel: "
	default:
		return fmt.Sprintf("redis at %s: ", o.Addr)
	}
}

// warm opens a connection ahead of the first request, whose lease may be too
// short for that. The operator is told where it can't be had.
func (on *server) warm(ask func(context.Context) error) {
	on.warming.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		if err := ask(ctx); err == nil {
			on.health.heard()
		} else if (is[dialError](err) || isTimeout(err)) && !on.locker.isClosed() {
			on.health.report(ctx, failed(sign, err))
		}
	})
}

// run and runAll carry commands out, see there. A hook of the user that panics is an
// error like others.

func (on *server) run(ctx context.Context, client commander, c command) (reply any, err error) {
	defer func() {
		if p := recover(); p != nil {
			reply, err = nil, on.hookPanicked(p)
		}
		on.doubt(err)
	}()
	return run(ctx, client, c)
}

func (on *server) runAll(ctx context.Context, client commander, commands []command) (cmds []*redis.Cmd) {
	defer func() {
		if p := recover(); p != nil {
			err := on.hookPanicked(p)
			cmds = make([]*redis.Cmd, len(commands))
			for i, c := range commands {
				cmds[i] = redis.NewCmd(ctx, c.args...)
				cmds[i].SetErr(err)
			}
		}
		for _, cmd := range cmds {
			on.doubt(cmd.Err())
		}
	}()
	return runAll(ctx, client, commands)
}

// hookPanicked returns what the caller is told of a panic, of which the log has the rest,
// once.
func (on *server) hookPanicked(p any) error {
	on.panicked.Do(func() {
		slog.Error("reqlock: a hook of the Redis client panicked", "panic", p, "stack", string(debug.Stack()))
	})
	return fmt.Errorf("a hook of the client panicked: %v", p)
}

// restarted is told that the server was.
func (on *server) restarted() {
	on.locker.renewals.hurry(on)
	if guard := on.restarts.guard(); guard > 0 {
		on.health.keptBack(guard)
	}
}

// watchEvery is how often Sentinel is asked for the master.
const watchEvery = 2 * time.Second

// watchMaster opens a connection now and then, with dial, and closes it: should it lead
// to another master than the others, those are cut. They are not given a short life
// instead, since that would end them also where Sentinel does not answer.
//
// A dial has all the time that the user's options give it: only then does go-redis give
// up a sentinel that does not answer, for all who use that client.
func (on *server) watchMaster(dial dialFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	on.warming.Go(func() { <-on.locker.closed; cancel() })
	for on.locker.sleep(ctx, watchEvery) == nil {
		conn := dialUntil(ctx, dial, "tcp", failoverAddr, func() {})
		if addr := conn.RemoteAddr(); addr != nil { // neither has one that was not opened
			on.connections.cut(addr)
		}
		_ = conn.Close()
	}
}

// doubt takes err, which may be nil, for a sign that this is not the server to ask.
func (on *server) doubt(err error) {
	switch {
	case err == nil || aboutOneKey(err):
		return
	case redis.IsReadOnlyError(err):
		on.connections.cutAll() // they lead to a master of before
	}
	on.topology.doubt()
}

// closeAll closes servers side by side.
func closeAll(servers []*server) error {
	errs := make(chan error, len(servers))
	for _, on := range servers {
		go func() { errs <- on.close() }()
	}
	var err error
	for range servers {
		err = errors.Join(err, <-errs)
	}
	return err
}

// close cleans up for a while, waits until no trip runs and closes the connections.
func (on *server) close() error {
	var both sync.WaitGroup
	both.Go(on.breaker.close)
	both.Go(on.inbox.close)
	both.Wait()
	on.cleanup.close()
	on.warming.Wait()
	for _, t := range []*trips{&on.asks, &on.interrupts, &on.releases} {
		t.close()
	}
	return errors.Join(on.askClient.Close(), on.holdClient.Close(), on.prober.client.Close())
}
