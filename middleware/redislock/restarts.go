package redislock

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"
)

// restarts notices that the server was restarted. It may have forgotten holders,
// who learn of it when they next extend, which is within their TTL: as long a
// free lock is given to nobody. It goes by the longest TTL that this process has
// used; a process that was not there before the restart cannot know of it.
//
// A restart ends all connections. So once one has ended, no connection on which
// a lock can be had is opened before somebody has looked who the server is. A
// pool that only grows has nothing to look for.
type restarts struct {
	client  *redis.Client
	created time.Time
	longest *longest
	noticed func() // a restart

	ended   *atomic.Int64 // connections
	looked  atomic.Int64  // at that many
	looking singleflight.Group

	refused func(error) // is told that INFO is

	count atomic.Int64 // restarts seen

	mu    sync.Mutex
	runID string
	since time.Time // the server has been up; zero: no restart was seen
}

// guard returns how long a free lock is to be given to nobody.
func (r *restarts) guard() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		return 0
	}
	return max(0, time.Until(r.since.Add(time.Duration(r.longest.Load()))))
}

// longest is the longest TTL that a Locker was asked for.
type longest struct{ atomic.Int64 }

// used notes a TTL.
func (l *longest) used(ttl time.Duration) {
	for {
		longest := l.Load()
		if int64(ttl) <= longest || l.CompareAndSwap(longest, int64(ttl)) {
			return
		}
	}
}

// admit is what redis.Options.OnConnect does: it looks before a connection is
// used. Where that finds a restart the connection is refused, since what is to
// be sent there was written before.
func (r *restarts) admit(ctx context.Context, conn *redis.Conn) error {
	ended := r.ended.Load()
	if r.looked.Load() == ended || ctx.Value(lookingKey{}) != nil {
		return nil
	}
	other, err := r.look(ctx, conn, true)
	switch {
	case err != nil:
		return err
	case other:
		return errUnlooked
	}
	r.looked.Store(ended)
	return nil
}

// lookingKey marks the context of who is about to look: a connection that is opened
// for that need not be looked at before.
type lookingKey struct{}

// settle looks ahead of a question, where there is a reason.
func (r *restarts) settle(within time.Duration) error {
	if r.looked.Load() == r.ended.Load() {
		return nil
	}
	look := r.looking.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), lookingKey{}, true), callTimeout)
		defer cancel()
		for start := time.Now(); ; {
			ended := r.ended.Load()
			_, err := r.look(ctx, r.client, true)
			switch {
			case err == nil:
				r.looked.Store(ended)
				return nil, nil
			case is[dialError](err), time.Since(start) > retryWithin:
				return nil, err
			}
			// On a connection that had ended as well: see persist.
		}
	})
	select {
	case l := <-look:
		return l.Err
	case <-time.After(within):
		return context.DeadlineExceeded
	}
}

// look asks the server who it is, and says whether it is another than before.
// suspect says that a connection has ended.
func (r *restarts) look(ctx context.Context, on redis.Cmdable, suspect bool) (other bool, err error) {
	info, err := on.Info(ctx, "server").Result()
	if is[redis.Error](err) {
		if forbidden(err) {
			r.refused(infoRefused(err))
		}
		return false, nil // a user who may not ask cannot be protected
	} else if err != nil {
		return false, err
	}
	now := time.Now()
	var id string
	var up time.Duration
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "run_id":
			id = value
		case "uptime_in_seconds": // rounded down
			seconds, _ := strconv.Atoi(value)
			up = time.Duration(seconds) * time.Second
		}
	}
	other = r.note(id, now.Add(-up), suspect)
	if other {
		r.noticed()
	}
	return other, nil
}

// note says whether id is another server's than before. Where nothing is known
// of before, and a connection has ended, one that has started since is, as far as
// can be told: since is out by up to a second.
func (r *restarts) note(id string, since time.Time, suspect bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	other := r.runID != "" && id != r.runID || r.runID == "" && suspect && since.Add(-time.Second).After(r.created)
	if other {
		r.keepBack(since)
		r.count.Add(1)
	}
	r.runID = id
	return other
}

// keepBack has free locks kept back as after a restart at that time, unless they are for
// longer already: a server that stands in for one that has just been restarted knows of
// no more holders than that did. The caller holds r.mu.
func (r *restarts) keepBack(since time.Time) {
	if since.After(r.since) {
		r.since = since
	}
}

// inherit has keys that were another server's kept back as they were there.
func (r *restarts) inherit(from *restarts) {
	if r == from {
		return
	}
	from.mu.Lock()
	since := from.since
	from.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keepBack(since)
}
