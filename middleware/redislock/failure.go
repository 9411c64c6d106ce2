package redislock

import (
	"errors"

	"github.com/redis/go-redis/v9"
)

// failure sorts an error of go-redis by what it says about the command: not
// sent at all, refused by the server, or gone without an answer.
func failure(err error) answer {
	switch {
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrClosed):
		return unsent
	case is[dialError](err):
		return unsent
	case is[redis.Error](err):
		return refused
	default:
		return unknown
	}
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
