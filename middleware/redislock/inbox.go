package redislock

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// pingInbox is how long the inbox is silent before it is tested: go-redis does not
// notice a line that swallows everything. It costs a waiter nothing but time, since it
// asks again anyway, so it is rare.
const pingInbox = 15 * time.Second

// refusedPause is how long an inbox that the server refuses stays closed: rights
// do not change often.
const refusedPause = 30 * time.Second

// openInbox is how long a caller waits for the inbox to open before it asks for
// the grant that it could not hear of.
const openInbox = 100 * time.Millisecond

// An inbox is the channel on which a process hears that a lock on a server was granted to
// a caller of its own, and the connection that is subscribed to it. It is opened when
// somebody has to wait for another process. In a Cluster a message reaches subscribers at
// all servers, but at this one it is there at once.
type inbox struct {
	locker  *Locker
	server  *server
	channel string
	several bool // a process has several: who waits is woken where one of them may have missed something

	mu       sync.Mutex
	callers  map[string]*lease // by token
	status   inboxStatus
	changed  chan struct{} // closed with every change of status
	sub      *redis.PubSub // the newest
	closed   bool
	done     chan struct{} // closed by close
	finished sync.WaitGroup

	subscribeRefused, numsubRefused sync.Once // the operator was told: see restricted.go
}

type inboxStatus int

const (
	inboxUnopened inboxStatus = iota
	inboxOpening
	inboxUp
	inboxDown // it is tried again, and meanwhile who waits asks
)

func newInbox(on *server, k kind) *inbox {
	return &inbox{
		locker: on.locker, server: on, several: k == inQuorum,
		channel: on.locker.prefix + "inbox:" + rand.Text(),
		callers: make(map[string]*lease), changed: make(chan struct{}), done: make(chan struct{}),
	}
}

// admit decides how s waits from now on: whether it hears of a grant or asks for
// it. What s.changed is closed for comes after this, so it is missed by nobody who
// decides before it asks.
func (i *inbox) admit(s *lease) {
	if s.listens != nil && s.listens != i { // the key has moved
		s.listens.unregister(s)
	}
	s.listens = i
	i.mu.Lock()
	defer i.mu.Unlock()
	s.mode, s.inbox, s.changed = "wait", "", i.changed
	switch i.register(s) {
	case inboxUp:
		s.inbox = i.channel
	case inboxDown:
		s.mode = "poll"
	}
}

// register has s hear what comes for its token, if anything can. The caller holds i.mu.
func (i *inbox) register(s *lease) inboxStatus {
	if i.status == inboxUp {
		if s.grants == nil {
			s.grants = make(chan uint64, 1)
		}
		i.callers[s.token] = s
	}
	return i.status
}

// open subscribes, if nobody has, and returns when that has succeeded or failed,
// or after openInbox.
func (i *inbox) open(ctx context.Context) error {
	timer := time.NewTimer(openInbox)
	defer timer.Stop()
	i.mu.Lock()
	if i.status == inboxUnopened && !i.closed {
		i.status = inboxOpening
		i.finished.Go(i.run)
	}
	opening, changed := i.status == inboxOpening, i.changed
	i.mu.Unlock()
	if !opening {
		return nil
	}
	select {
	case <-changed:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-i.locker.closed:
		return errClosed
	}
}

func (i *inbox) registered(s *lease) inboxStatus {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.register(s)
}

// unregister ends what register began.
func (i *inbox) unregister(s *lease) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.callers, s.token)
}

// run keeps the inbox subscribed until it is closed: with the Locker, or before where the
// server has no keys any more.
func (i *inbox) run() {
	var pauses backoff
	var vain attempts
	for {
		began := time.Now()
		err := i.receive()
		vain.note(began, err, i.set(inboxDown) == inboxUp)
		var pause time.Duration
		if r := i.refusal(err, vain); r != nil {
			i.subscribeRefused.Do(func() { i.server.health.degraded(r) })
			pause = refusedPause
		} else {
			if time.Since(began) > lastPoll {
				pauses = backoff{}
			}
			pause = pauses.pause(-1)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-i.done:
			timer.Stop()
			return
		}
	}
}

// receive subscribes and delivers what comes, until that fails.
func (i *inbox) receive() error {
	on := i.server
	if err := on.restarts.settle(callTimeout); err != nil {
		return unsentError{err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	sub := on.askClient.Subscribe(ctx)
	defer func() { _ = sub.Close() }()
	if !i.attach(sub) {
		return errClosed
	}
	if err := sub.Subscribe(ctx, i.channel); err != nil {
		return err
	}
	wait, pinged := opTimeout, true // for the acknowledgement
	for {
		message, err := sub.ReceiveTimeout(context.Background(), wait)
		switch {
		case err == nil:
			wait, pinged = pingInbox, false
		case !isTimeout(err) || pinged:
			return err
		default:
			ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
			err := sub.Ping(ctx)
			cancel()
			if err != nil {
				return err
			}
			wait, pinged = opTimeout, true
		}
		switch m := message.(type) {
		case *redis.Subscription:
			if i.locker.isClosed() {
				return errClosed
			}
			if err := i.check(); err != nil {
				return err
			}
			i.set(inboxUp)
		case *redis.Message:
			i.deliver(m.Payload)
		}
	}
}

// attach notes the connection that close is to end. false: it has come too late.
func (i *inbox) attach(sub *redis.PubSub) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sub = sub
	return !i.closed
}

// set notes how the inbox stands, and returns how it stood.
func (i *inbox) set(status inboxStatus) (before inboxStatus) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before = i.status
	if before != status {
		i.status = status
		close(i.changed)
		i.changed = make(chan struct{})
		if i.several {
			for _, s := range i.callers {
				s.wake()
			}
		}
	}
	return before
}

// noFence stands in a message for the fence where the lock is free, and not granted.
const noFence = 0

// deliver hands a message of grant.lua or quorum_leave.lua, "token fence", to the caller
// that it is for. One that has gone gives its token up by itself.
func (i *inbox) deliver(message string) {
	token, number, _ := strings.Cut(message, " ")
	fence, err := strconv.ParseUint(number, 10, 64)
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.callers[token]
	if s == nil || err != nil {
		return
	}
	if fence == noFence {
		s.wake()
		return
	}
	select {
	case <-s.grants: // an older one
	default:
	}
	s.grants <- fence
}

// wake has s ask again. Several may say so.
func (s *lease) wake() {
	select {
	case s.grants <- noFence:
	default:
	}
}

func (i *inbox) close() {
	i.mu.Lock()
	i.closed = true
	close(i.done)
	sub := i.sub
	i.mu.Unlock()
	if sub != nil {
		_ = sub.Close() // ends receive
	}
	i.finished.Wait()
}
