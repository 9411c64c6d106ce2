package redislock

import (
	"context"
	"fmt"
)

// A credentialsFunc is what redis.Options.CredentialsProviderContext is.
type credentialsFunc = func(context.Context) (username, password string, err error)

// credentialsBounded ends when its context does, or after opTimeout, which a
// provider that asks a service for a token may not. One that goes on is left to
// itself. ask is preferred, as by go-redis; plain is used where it is nil.
func credentialsBounded(ask credentialsFunc, plain func() (username, password string)) credentialsFunc {
	if ask == nil {
		ask = func(context.Context) (string, string, error) {
			username, password := plain()
			return username, password, nil
		}
	}
	type credentials struct {
		username, password string
		err                error
	}
	return func(ctx context.Context) (string, string, error) {
		ctx, cancel := context.WithTimeout(ctx, opTimeout)
		defer cancel()
		answers := make(chan credentials, 1)
		go func() { // ends with ask
			var c credentials
			defer func() {
				if p := recover(); p != nil {
					c.err = fmt.Errorf("credentials provider panicked: %v", p)
				}
				answers <- c
			}()
			c.username, c.password, c.err = ask(ctx)
		}()
		select {
		case c := <-answers:
			return c.username, c.password, c.err
		case <-ctx.Done():
			return "", "", fmt.Errorf("credentials provider does not answer: %w", context.Cause(ctx))
		}
	}
}
