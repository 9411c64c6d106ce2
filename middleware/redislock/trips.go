package redislock

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// trips carries commands to the server and the replies back. As long as few ask at
// a time, each of them makes a round trip of its own, on a connection of its own.
// When many do, those who come wait until one of the trips under way is over, and
// make the next one together: most of what a trip costs is the same for one and
// for a hundred. Nobody waits for company.
//
// Whoever waits for a trip has sent nothing yet, and knows it. That is what
// go-redis can't tell, neither of its pool nor of its AutoPipeline.
type trips struct {
	locker  *Locker
	client  *redis.Client
	limit   int                         // of the trips that are under way
	prepare func(context.Context) error // before each; may be nil

	mu       sync.Mutex
	waiting  []*passenger
	underWay int
	closed   bool
	over     sync.WaitGroup // counts those under way
}

// A rider has a command carried.
type rider interface {
	// command returns it as of now: it is about to be sent.
	command() command
	// take takes what became of it, and says whether that settles it; otherwise it
	// is sent again, if there is time.
	take(reply any, err error) (o outcome, settled bool)
}

// A passenger is a rider that waits for a trip, then for its end.
type passenger struct {
	rider
	since   time.Time
	boarded bool          // guarded by the mutex of the trips, like left
	left    bool          // it has not boarded, and will not
	arrived chan struct{} // closed when it is back, or is not taken along because of err
	back    bool          // it is closed; for whoever makes the trip
	err     error
}

// take lets a passenger go that is settled, whatever the others wait for.
func (p *passenger) take(reply any, err error) (outcome, bool) {
	o, settled := p.rider.take(reply, err)
	if settled {
		p.arrive()
	}
	return o, settled
}

func (p *passenger) arrive() {
	if !p.back {
		p.back = true
		close(p.arrived)
	}
}

// carry has the command of r carried, and returns when r has taken what became of
// it, which is callTimeout after it was sent at the latest. Before that it waits
// for a trip, at most for patience; an error says that there was none. While no
// trip has a reply, it gives up after callTimeout, the trip included: those before
// it then wait in vain, and it is not to do so as well.
func (t *trips) carry(ctx context.Context, patience time.Duration, r rider) error {
	p, err := t.enter(r)
	if err != nil {
		return err
	}
	if p == nil {
		defer t.next()
		t.trip(callTimeout, r)
		return nil
	}
	timer := time.NewTimer(min(patience, callTimeout))
	defer timer.Stop()
	for {
		select {
		case <-p.arrived:
			return p.err
		case <-timer.C:
			rest := patience - time.Since(p.since)
			switch {
			case t.locker.health.silent() > opTimeout:
				err = errNoReplies
			case rest <= 0:
				err = errNoConnection
			default:
				timer.Reset(min(rest, callTimeout))
				continue
			}
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-t.locker.closed:
			err = errClosed
		}
		if t.leave(p) {
			return err
		}
		<-p.arrived // it is under way, and seen through
		return p.err
	}
}

// enter returns the passenger that r is, or nil where it is to make a trip of its
// own.
func (t *trips) enter(r rider) (*passenger, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.locker.isClosed() {
		return nil, errClosed
	}
	if t.underWay < t.limit {
		t.underWay++
		t.over.Add(1)
		return nil, nil
	}
	p := &passenger{rider: r, since: time.Now(), arrived: make(chan struct{})}
	t.waiting = append(t.waiting, p)
	return p, nil
}

// leave says whether p has left: it had not boarded.
func (t *trips) leave(p *passenger) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.left = !p.boarded
	return p.left
}

// next ends a trip, and has the next one made for those who wait.
func (t *trips) next() {
	if group, bound := t.board(); len(group) > 0 {
		go t.shared(group, bound) // counted as under way
	}
}

// shared makes the trip of a group, and goes on until nobody waits.
func (t *trips) shared(group []*passenger, bound time.Duration) {
	for ; len(group) > 0; group, bound = t.board() {
		riders := make([]rider, len(group))
		for i, p := range group {
			riders[i] = p
		}
		t.trip(bound, riders...)
		for _, p := range group {
			p.arrive()
		}
	}
}

// board returns who makes the next trip, and how long that may take. Where nobody
// waits there is none.
func (t *trips) board() (group []*passenger, bound time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	silent := t.locker.health.silent()
	bound = callTimeout
	for len(t.waiting) > 0 && len(group) < maxBatch {
		p := t.waiting[0]
		t.waiting[0] = nil
		t.waiting = t.waiting[1:]
		if p.left {
			continue
		}
		p.boarded = true
		inVain := min(time.Since(p.since), silent)
		if inVain >= callTimeout {
			p.err = errNoReplies
			p.arrive()
			continue
		}
		bound = min(bound, callTimeout-inVain)
		group = append(group, p)
	}
	if len(group) == 0 {
		t.underWay--
		t.over.Done()
	}
	return group, bound
}

// trip takes bound at most. Where it fails quickly it is made again, for those
// that it has not settled.
func (t *trips) trip(bound time.Duration, riders ...rider) {
	persist(bound, func(bound time.Duration) (o outcome, settled bool) {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		settled = true
		keep := func(r rider, reply any, err error) {
			of, ok := r.take(reply, err)
			if of.replied() {
				t.locker.health.heard() // before anybody boards
			}
			if !ok {
				riders = append(riders, r)
				o, settled = of, false
			}
		}
		all := riders
		riders = nil
		if t.prepare != nil {
			if err := t.prepare(ctx); err != nil {
				for _, r := range all {
					keep(r, nil, unsentError{err})
				}
				return o, settled
			}
		}
		if len(all) == 1 {
			reply, err := run(ctx, t.client, all[0].command())
			keep(all[0], reply, err)
			return o, settled
		}
		commands := make([]command, len(all))
		for i, r := range all {
			commands[i] = r.command()
		}
		for i, cmd := range runAll(ctx, t.client, commands) {
			reply, err := cmd.Result()
			keep(all[i], reply, err)
		}
		return o, settled
	})
}

// close waits until no trip is under way any more: there are none after that.
func (t *trips) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.over.Wait()
}
