package redislock

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed grant.lua
	grantLua string
	//go:embed acquire.lua
	acquireLua string
	//go:embed extend.lua
	extendLua string
	//go:embed leave.lua
	leaveLua string
	//go:embed interrupt.lua
	interruptLua string
)

// scripts are those of one Locker.
type scripts struct{ acquire, extend, leave, interrupt script }

func (s *scripts) init() {
	s.acquire.init(grantLua+acquireLua, 5)
	s.extend.init(extendLua, 3)
	s.leave.init(grantLua+leaveLua, 5)
	s.interrupt.init(interruptLua, 2)
}

// A script is run by its hash once the server knows it, and sent whole where it
// does not: a flushed script cache is one more round trip and no error. It does
// what redis.Script does without a wasted first round trip, and with half of
// the allocations, on the path of every request.
type script struct {
	source, hash any // strings, boxed once
	keys         any // how many of the arguments are keys, an int
	known        atomic.Bool
}

func (s *script) init(source string, keys int) {
	sum := sha1.Sum([]byte(source))
	s.source, s.hash, s.keys = source, hex.EncodeToString(sum[:]), keys
}

func (s *script) run(ctx context.Context, client *redis.Client, keysAndArgs ...any) (any, error) {
	if s.known.Load() {
		reply, err := s.send(ctx, client, "evalsha", s.hash, keysAndArgs)
		if !redis.HasErrorPrefix(err, "NOSCRIPT") {
			return reply, err
		}
	}
	reply, err := s.send(ctx, client, "eval", s.source, keysAndArgs)
	if err == nil {
		s.known.Store(true)
	}
	return reply, err
}

// runAll runs the script for each of the arguments, all in one trip, and returns
// a command for each, with its reply or its error.
func (s *script) runAll(ctx context.Context, client *redis.Client, keysAndArgs [][]any) []*redis.Cmd {
	name, body := any("evalsha"), s.hash
	if !s.known.Load() {
		name, body = "eval", s.source
	}
	cmds := s.sendAll(ctx, client, name, body, keysAndArgs)
	if len(cmds) > 0 && redis.HasErrorPrefix(cmds[0].Err(), "NOSCRIPT") {
		cmds = s.sendAll(ctx, client, "eval", s.source, keysAndArgs)
	}
	if len(cmds) > 0 && cmds[0].Err() == nil {
		s.known.Store(true)
	}
	return cmds
}

func (s *script) sendAll(ctx context.Context, client *redis.Client, name, body any, keysAndArgs [][]any) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(keysAndArgs))
	_, _ = client.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
		for i, args := range keysAndArgs {
			cmds[i] = redis.NewCmd(ctx, append([]any{name, body, s.keys}, args...)...)
			_ = p.Process(ctx, cmds[i])
		}
		return nil
	})
	return cmds
}

func (s *script) send(ctx context.Context, client *redis.Client, name, body any, keysAndArgs []any) (any, error) {
	args := make([]any, 0, 3+len(keysAndArgs))
	args = append(append(args, name, body, s.keys), keysAndArgs...)
	cmd := redis.NewCmd(ctx, args...)
	if err := client.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

func integer(fields []any, i int) int64 {
	if i >= len(fields) {
		return 0
	}
	n, _ := fields[i].(int64)
	return n
}

// millis rounds up, so that a lease in Redis outlasts the one that we count on.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
