package redislock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
)

// scripts calls the scripts by hand, for the key "key".
type scripts struct {
	t              *testing.T
	server         *redistest.Server
	acquire, leave []any // the command up to the names
}

// learnScripts reads the scripts off what a Locker sends.
func learnScripts(t *testing.T, server *redistest.Server) scripts {
	t.Helper()
	monitor := server.Monitor(t)
	require.NoError(t, acquire(t, open(t, server.Client()), "key", lock.Options{}).Release(t.Context()))
	s := scripts{t: t, server: server}
	for _, c := range monitor.Stop().TopLevel().Named("eval") {
		command := make([]any, 8) // eval, script, 5, names
		for i := range command {
			command[i] = c.Args[i]
		}
		if isAcquire(c) {
			s.acquire = command
		} else {
			s.leave = command
		}
	}
	return s
}

func (s scripts) do(command []any, args ...any) []any {
	s.t.Helper()
	reply, err := s.server.Client().Do(s.t.Context(), append(command[:8:8], args...)...).Result()
	require.NoError(s.t, err)
	if list, ok := reply.([]any); ok {
		return list
	}
	return []any{reply}
}

// A question as acquire.lua takes it. What is left out is that of a caller that
// came now, with a minute's TTL and place, and no limit of the queue.
type question struct {
	mode, inbox string
	ttl, place  string // ms
	most        int
	age         time.Duration
}

func (s scripts) ask(token string, q question) []any {
	s.t.Helper()
	if q.mode == "" {
		q.mode = "poll"
	}
	if q.ttl == "" {
		q.ttl = "60000"
	}
	if q.place == "" {
		q.place = "60000"
	}
	return s.do(s.acquire, token, q.ttl, q.mode, q.inbox, q.place, q.most, q.age.Microseconds(), 0)
}

// give gives up a token, and enters the next one unless that is "".
func (s scripts) give(token, tombstone, next string) []any {
	s.t.Helper()
	if next == "" {
		return s.do(s.leave, token, tombstone)
	}
	return s.do(s.leave, token, tombstone, next, "60000", "", "60000", 0)
}

func (s scripts) code(want int, reply []any) {
	s.t.Helper()
	require.EqualValues(s.t, want, reply[0], reply)
}

// free frees the lock behind everybody's back.
func (s scripts) free() {
	s.t.Helper()
	require.EqualValues(s.t, 1, s.server.Client().Del(s.t.Context(), lockKey("key")).Val())
}

func (s scripts) owner() string {
	return s.server.Client().Get(s.t.Context(), lockKey("key")).Val()
}

func (s scripts) queue() []string {
	return s.server.Client().ZRange(s.t.Context(), "reqlock:{key}:queue", 0, -1).Val()
}

func (s scripts) left(name string) time.Duration {
	return s.server.Client().PTTL(s.t.Context(), "reqlock:{key}:"+name).Val()
}

// expireSoon lets the key live for a second.
func (s scripts) expireSoon(name string) {
	s.t.Helper()
	require.True(s.t, s.server.Client().PExpire(s.t.Context(), "reqlock:{key}:"+name, time.Second).Val())
}

// What the scripts do where what they find is seldom so, or is seen by nobody
// until something else fails as well.
func TestScripts(t *testing.T) {
	server := redistest.Start(t)
	learnt := learnScripts(t, server)
	cases := []struct {
		name string
		run  func(*testing.T, scripts)
	}{
		{"who asks again for its own lock has it for a whole TTL", func(t *testing.T, s scripts) {
			first := s.ask("a", question{})
			s.expireSoon("lock")
			s.expireSoon("fence")
			require.Equal(t, first, s.ask("a", question{}))
			require.Greater(t, s.left("lock"), 10*time.Second)
			require.Greater(t, s.left("fence"), 10*time.Second)
		}},
		{"who asks again for its own lock, of which the fence is gone, has a new one", func(t *testing.T, s scripts) {
			first := s.ask("a", question{})
			server.Client().Del(t.Context(), "reqlock:{key}:fence")
			again := s.ask("a", question{})
			s.code(1, again)
			require.Greater(t, again[1], first[1])
		}},
		{"a leave that is sent again finds the next one the owner", func(t *testing.T, s scripts) {
			s.ask("a", question{})
			first := s.give("a", "0", "b")
			s.code(1, first)
			s.expireSoon("lock")
			require.Equal(t, []any{int64(0), int64(1), first[2]}, s.give("a", "0", "b"))
			require.Greater(t, s.left("lock"), 10*time.Second)
			require.Empty(t, s.queue())
		}},
		{"who has been given up is not entered by a leave", func(t *testing.T, s scripts) {
			s.give("b", "60000", "")
			s.ask("a", question{})
			require.Equal(t, []any{int64(1), int64(-1)}, s.give("a", "0", "b"))
			require.Empty(t, s.owner())
			require.Empty(t, s.queue())
		}},
		{"a leave gives on only what it frees", func(t *testing.T, s scripts) {
			s.ask("a", question{})
			s.ask("b", question{})
			s.free()
			reply := s.give("a", "0", "c")
			s.code(-1, reply)
			s.code(4, reply[1:])
			require.Empty(t, s.owner())
			require.Equal(t, []string{"b", "c"}, s.queue())
		}},
		{"the next one learns what the holder's lease has left", func(t *testing.T, s scripts) {
			s.ask("a", question{})
			reply := s.give("x", "0", "c")
			s.code(0, reply)
			require.Greater(t, reply[3], int64(10_000))
		}},
		{"who has been given up and finds the lock free gives it on", func(t *testing.T, s scripts) {
			s.ask("a", question{})
			s.ask("b", question{})
			s.give("c", "60000", "")
			s.free()
			require.Equal(t, []any{int64(-1)}, s.ask("c", question{}))
			require.Equal(t, "b", s.owner())
		}},
		{"a tombstone that has lapsed is swept out", func(t *testing.T, s scripts) {
			s.give("c", "1", "")
			require.Eventually(t, func() bool {
				s.give("d", "60000", "")
				return server.Client().ZCard(t.Context(), "reqlock:{key}:tombstones").Val() == 1
			}, patience, time.Millisecond)
		}},
		{"a tombstone that has lapsed and was not swept out is none", func(t *testing.T, s scripts) {
			s.give("d", "60000", "")
			s.give("c", "1", "")
			require.Eventually(t, func() bool { return s.ask("c", question{})[0] == int64(1) }, patience, time.Millisecond)
		}},
		{"a try does not queue", func(t *testing.T, s scripts) {
			s.ask("a", question{})
			s.code(2, s.ask("b", question{mode: "try"}))
			require.Empty(t, s.queue())
		}},
		{"a try is served where only the dead wait", func(t *testing.T, s scripts) {
			s.ask("a", question{})
			s.ask("b", question{mode: "wait", inbox: "nobody's"})
			s.ask("c", question{mode: "wait", inbox: "nobody's"})
			s.free()
			s.code(1, s.ask("d", question{mode: "try"}))
		}},
		{"who has not asked again is passed over", func(t *testing.T, s scripts) {
			s.ask("a", question{})
			s.ask("b", question{place: "0"})
			s.give("a", "0", "")
			require.Empty(t, s.owner())
		}},
		{"who asks lives, and so does who is entered", func(t *testing.T, s scripts) {
			s.give("x", "60000", "") // so that the short way is not taken
			s.code(1, s.ask("b", question{mode: "wait", inbox: "nobody's"}))
			require.Equal(t, int64(1), s.do(s.leave, "b", "0", "c", "60000", "nobody's", "60000", 0)[1])
		}},
		{"the lock is written with the TTL of whom it is given to", func(t *testing.T, s scripts) {
			s.ask("a", question{})
			s.ask("b", question{ttl: "300000"})
			s.free()
			reply := s.ask("c", question{}) // nor does it overtake
			s.code(3, reply)
			require.Equal(t, int64(300_000), reply[2], "and so is what is left")
			require.Greater(t, s.left("lock"), time.Minute)
			s.ask("d", question{ttl: "600000", age: time.Hour})
			s.give("b", "0", "e")
			require.Equal(t, "d", s.owner())
			require.Greater(t, s.left("lock"), 5*time.Minute)
		}},
		{"a place is kept, whatever age is told later", func(t *testing.T, s scripts) {
			s.ask("a", question{})
			s.ask("b", question{age: time.Hour})
			s.ask("c", question{age: time.Minute})
			reply := s.ask("b", question{})
			require.Equal(t, []string{"b", "c"}, s.queue())
			require.Equal(t, int64(0), reply[3])
			require.Equal(t, int64(1), s.ask("c", question{})[3])
		}},
		{"who is in a full queue stays, and who is not is not let in", func(t *testing.T, s scripts) {
			s.ask("a", question{})
			s.code(3, s.ask("b", question{most: 1}))
			s.ask("c", question{age: time.Hour})
			s.code(3, s.ask("b", question{most: 1}))
			s.code(5, s.ask("d", question{most: 2}))
			require.Equal(t, []string{"c", "b"}, s.queue())
		}},
		{"who gives the lock on does not count as one who waits", func(t *testing.T, s scripts) {
			s.ask("a", question{})
			s.ask("b", question{})
			s.ask("c", question{})
			s.free()
			reply := s.ask("d", question{most: 1}) // behind c
			s.code(5, reply)
			require.Equal(t, int64(1), reply[3])
			require.Equal(t, []string{"c"}, s.queue())
			require.EqualValues(t, 1, server.Client().HLen(t.Context(), "reqlock:{key}:entries").Val())
			s.free()
			s.code(3, s.ask("d", question{most: 1}))
		}},
		{"a queue that is left alone goes by itself", func(t *testing.T, s scripts) {
			s.ask("a", question{})
			s.ask("b", question{})
			require.Greater(t, s.left("queue"), time.Minute)
			require.Greater(t, s.left("entries"), time.Minute)
		}},
		{"the highest fence is that which is stored or the time", func(t *testing.T, s scripts) {
			s.ask("a", question{})
			server.Client().Del(t.Context(), "reqlock:{key}:fence")
			now := server.Client().Time(t.Context()).Val().UnixMicro()
			require.GreaterOrEqual(t, s.ask("b", question{})[1], now-1)
			server.Client().Set(t.Context(), "reqlock:{key}:fence", int64(1)<<52, 0)
			require.Equal(t, int64(1)<<52, s.ask("b", question{})[1])
		}},
		{"out of memory who waits keeps its place", func(t *testing.T, s scripts) {
			s.ask("a", question{})
			s.ask("b", question{})
			configure(t, server.Client(), "maxmemory 1mb")
			defer configure(t, server.Client(), "maxmemory 0")
			s.code(3, s.ask("b", question{}))
			s.code(1, s.give("a", "0", ""))
			require.Equal(t, "b", s.owner())
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, server.Client().FlushAll(t.Context()).Err())
			s := learnt
			s.t = t
			c.run(t, s)
		})
	}
}
