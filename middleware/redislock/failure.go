package redislock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/reqlock/reqlock/middleware/lock"
)

var (
	// errClosed is for callers of a Locker that is closed.
	errClosed = fmt.Errorf("redislock: %w: the Locker is closed", lock.ErrUnavailable)
	// errNotRenewed is for the leases that it still had.
	errNotRenewed = fmt.Errorf("%w: the Locker was closed and renews no more", lock.ErrExpired)

	// errGone is for a lease that the server does not know any more.
	errGone = fmt.Errorf("%w early: the server does not have the lock any more; it restarted without its data, or the lock was evicted or deleted", lock.ErrExpired)

	// errNoTrip is for a caller that waited for a trip in vain, while those under
	// way had their replies: it has met a crowd, and no outage.
	errNoTrip = &lock.BusyError{
		Err:   fmt.Errorf("redislock: %w: too many callers for the connections: the pool is too small", lock.ErrBusy),
		Ahead: 1,
	}

	// errNoReplies is for a caller of a server that did not answer others: see breaker.
	errNoReplies = fmt.Errorf("redislock: %w: it does not answer", lock.ErrUnavailable)

	// errKeptBack is for a caller whose wait ends before anybody is served again.
	errKeptBack = fmt.Errorf("redislock: %w: the server was restarted and may have forgotten who holds the key", lock.ErrUnavailable)

	// errUnlooked has a call made anew: see restarts.
	errUnlooked error = dialError{errors.New("a connection has ended, and nobody has looked whether the server was restarted")}

	errGivenUp = errors.New("the token has been given up")

	errNotCome = errors.New("no answer by now")

	errTooLate = errors.New("the lock was granted after more than its TTL")
)

// unavailable does not wrap err: a timeout of ours would match
// context.DeadlineExceeded, which to the caller means its own deadline.
func unavailable(err error) error {
	if errors.Is(err, lock.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("redislock: %w: %v", lock.ErrUnavailable, err)
}

// An unsentError is why a command was not sent.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// failure sorts an error of go-redis by what it says about the command: not
// sent at all, refused by the server, or gone without a reply.
func failure(err error) outcome {
	switch {
	case is[unsentError](err), errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrClosed):
		return unsent
	case err == errUnlooked:
		return unlooked
	case is[dialError](err):
		return unsent
	case onItsWay(err):
		return elsewhere
	case is[redis.Error](err):
		return refused
	default:
		return unknown
	}
}

// unasked says that err comes from a server that was not asked.
func unasked(err error) bool {
	return err == errUnlooked || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrClosed)
}

// unreachable says that err is what comes instead of a reply where there is no server,
// or none that answers. A hook of the user's may fail otherwise.
func unreachable(err error) bool {
	return err != nil && !unasked(err) && (is[net.Error](err) || is[dialError](err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded))
}

// passing finds what a server says to everybody, and not for long.
func passing(err error) bool {
	return err != nil && (redis.IsLoadingError(err) || strings.HasPrefix(err.Error(), "BUSY "))
}

// onItsWay finds what a server of a Cluster says of a key that has gone to another, or
// is being moved there and may be here in part.
func onItsWay(err error) bool {
	_, ask := redis.IsAskError(err)
	return moved(err) || ask || redis.IsTryAgainError(err)
}

func moved(err error) bool {
	_, ok := redis.IsMovedError(err)
	return ok
}

// noPassword is NOAUTH. To a command with as many arguments as ours Redis says to
// a client without a password that its protocol is wrong.
type noPassword struct{}

func (noPassword) RedisError()   {}
func (noPassword) Error() string { return "NOAUTH Authentication required." }

// explained returns what the operator is to read of err.
func explained(err error) error {
	switch {
	case is[redis.Error](err) && strings.Contains(err.Error(), "unauthenticated"):
		return noPassword{}
	case moved(err):
		return fmt.Errorf("%w (the server is one of a Cluster, of which the client is to be made with redis.NewClusterClient)", err)
	case forbidden(err):
		return fmt.Errorf("%w (the user must be allowed %s)", err, neededRights)
	default:
		return err
	}
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
