package redislock

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// newClient is what redis.NewClient is, and redis.ClusterOptions.NewClient.
type newClient = func(*redis.Options) *redis.Client

// derive returns a client of our own to the server that options, which are the
// user's, lead to. What the user's client is tuned for is not what a lock needs: it may
// wait for seconds, it repeats commands whose fate is unknown, and its connections are
// shared with traffic that can starve a renewal. admit, which may be nil, is called
// before a connection is used.
func derive(options *redis.Options, open newClient, poolSize int, c *connections, admit connHook) *redis.Client {
	o := *options
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.ContextTimeoutEnabled = true
	o.DialTimeout = bounded(o.DialTimeout)
	o.ReadTimeout = bounded(o.ReadTimeout)
	o.WriteTimeout = bounded(o.WriteTimeout)
	o.PoolTimeout = opTimeout
	o.MinIdleConns = 0
	o.PoolSize, o.MaxActiveConns = poolSize, poolSize
	o.PipelinePoolSize = -1 // none of its own
	if o.CredentialsProviderContext != nil || o.CredentialsProvider != nil {
		o.CredentialsProviderContext = credentialsBounded(o.CredentialsProviderContext, o.CredentialsProvider)
	}
	o.Dialer = dialBounded(dialer(&o), poolSize, c)
	o.OnConnect = both(o.OnConnect, admit)
	o.Limiter = nil // the application's traffic must not stop a renewal
	// The processor belongs to the given client; ours make their own.
	o.PushNotificationProcessor = nil
	o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
	// Each of these is a round trip more before a new connection can be used.
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return open(&o)
}

// dialer returns how a client with these options opens a connection.
func dialer(o *redis.Options) dialFunc {
	if o.Dialer != nil {
		return o.Dialer
	}
	return redis.NewDialer(o)
}

// A connHook is what redis.Options.OnConnect is.
type connHook = func(context.Context, *redis.Conn) error

// both runs two hooks, each of which may be nil.
func both(first, second connHook) connHook {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, conn *redis.Conn) error {
		if err := first(ctx, conn); err != nil {
			return err
		}
		return second(ctx, conn)
	}
}

func bounded(d time.Duration) time.Duration {
	if d <= 0 || d > opTimeout {
		return opTimeout
	}
	return d
}
