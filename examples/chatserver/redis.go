package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const pingTimeout = 2 * time.Second

// openRedis returns a client for the Redis of o, or for an embedded one where o is
// nil. It has answered, unless f does without it: then it need not be there yet.
func openRedis(o *redis.Options, f fallback) (client *redis.Client, closeAll func(), err error) {
	if o == nil {
		m, err := startEmbedded()
		if err != nil {
			return nil, nil, err
		}
		client = redis.NewClient(&redis.Options{Addr: m.Addr()})
		return client, func() { _ = client.Close(); m.Close() }, nil
	}
	// Once, and no longer than we wait: who starts this wants to know.
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	client = redis.NewClient(o)
	err = ping(client)
	if err != nil && f != fallbackNone && mayPass(err) {
		slog.Warn("cannot use Redis yet", "addr", o.Addr, "err", err, "fallback", f)
	} else if err != nil {
		_ = client.Close()
		return nil, nil, fmt.Errorf("cannot use Redis at %s: %w", o.Addr, err)
	}
	return client, func() { _ = client.Close() }, nil
}

// mayPass says whether a Redis that says this may be had later, without a change to the
// command line.
func mayPass(err error) bool {
	_, replied := errors.AsType[redis.Error](err)
	return !replied || redis.IsLoadingError(err) || strings.HasPrefix(err.Error(), "BUSY ")
}

func ping(client *redis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	err := client.Ping(ctx).Err()
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return fmt.Errorf("no answer in %v", pingTimeout)
	}
	return err
}
