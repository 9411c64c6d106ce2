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
	noticed func() // a restart

	longest atomic.Int64 // TTL

	ended   atomic.Int64 // connections
	looked  atomic.Int64 // at that many
	looking singleflight.Group

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

// used notes a TTL.
func (r *restarts) used(ttl time.Duration) {
	for {
		longest := r.longest.Load()
		if int64(ttl) <= longest || r.longest.CompareAndSwap(longest, int64(ttl)) {
			return
		}
	}
}

type lookKey struct{}

// admit is what redis.Options.OnConnect does: it refuses a connection that is
// opened before anybody has looked. What is to be sent there was written before.
func (r *restarts) admit(ctx context.Context, _ *redis.Conn) error {
	if r.looked.Load() != r.ended.Load() && ctx.Value(lookKey{}) == nil {
		return errUnlooked
	}
	return nil
}

// settle looks, where there is a reason.
func (r *restarts) settle(ctx context.Context) error {
	if r.looked.Load() == r.ended.Load() {
		return nil
	}
	look := r.looking.DoChan("", func() (any, error) {
		if err := r.look(ctx); err != nil {
			return nil, err
		}
		// Those that ended meanwhile did so in the pool, on the way to one that
		// the server answered on. If it does so no more, that one has ended too.
		r.looked.Store(r.ended.Load())
		return nil, nil
	})
	select {
	case l := <-look:
		return l.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// look asks the server who it is.
func (r *restarts) look(ctx context.Context) error {
	info, err := r.client.Info(context.WithValue(ctx, lookKey{}, true), "server").Result()
	if is[redis.Error](err) {
		return nil // a user who may not ask cannot be protected
	} else if err != nil {
		return err
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
	if r.note(id, now.Add(-up)) {
		r.noticed()
	}
	return nil
}

// note says whether id is another server's than before.
func (r *restarts) note(id string, since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	other := r.runID != "" && id != r.runID
	if other {
		r.since = since
		r.count.Add(1)
	}
	r.runID = id
	return other
}
