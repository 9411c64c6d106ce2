package redislock

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// restarts notices that the server was restarted. It may have forgotten holders,
// who learn of it when they next extend, which is within their TTL: as long a
// free lock is given to nobody. It goes by the longest TTL that this process has
// used; a process that was not there before the restart cannot know of it.
//
// A connection is looked at when it opens, if another has ended since the last
// look: a restart ends them all, and a pool that only grows has nothing to look
// for. The first look is apart, so that it delays no request.
type restarts struct {
	noticed func() // a restart

	longest atomic.Int64 // TTL

	ended  atomic.Int64 // connections
	looked atomic.Int64 // at that many

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

// look is what redis.Options.OnConnect does.
func (r *restarts) look(ctx context.Context, conn *redis.Conn) error {
	ended := r.ended.Load()
	if r.looked.Load() == ended {
		return nil
	}
	other, err := r.ask(ctx, conn)
	if err != nil {
		return err
	}
	r.looked.Store(ended)
	if !other {
		return nil
	}
	r.noticed()
	// What is to be sent here was written before this was known.
	return dialError{errRestarted}
}

// ask asks the server who it is, and says whether it is another than before.
func (r *restarts) ask(ctx context.Context, conn redis.Cmdable) (other bool, err error) {
	info, err := conn.Info(ctx, "server").Result()
	if _, refused := err.(redis.Error); refused {
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
	return r.note(id, now.Add(-up)), nil
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
