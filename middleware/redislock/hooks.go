package redislock

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// A commander carries out commands: what we need of a client.
type commander interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipelined(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error)
}

// withHooks returns ours with the hooks that the user's client has by now, or ours
// alone where there is no such client. A Conn of the user's client has copies of them.
// What it is told to carry out goes through them and then to our client: it never has
// a connection.
func withHooks(users, ours *redis.Client) commander {
	if users == nil {
		return ours
	}
	hooked := users.Conn()
	hooked.AddHook(detour{ours})
	return hooked
}

// A detour is the last hook of a client, which leads to another one.
type detour struct{ to *redis.Client }

func (d detour) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d detour) ProcessHook(redis.ProcessHook) redis.ProcessHook { return d.to.Process }

func (d detour) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		_, err := d.to.Pipelined(ctx, func(p redis.Pipeliner) error {
			return p.BatchProcess(ctx, cmds...)
		})
		return err
	}
}
