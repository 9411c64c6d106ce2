package main

import (
	"errors"

	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// A fallback is what a message does while Redis cannot be reached.
type fallback string

const (
	fallbackNone  fallback = "none"  // it is turned away
	fallbackLocal fallback = "local" // this server takes turns by itself
	fallbackOpen  fallback = "open"  // it is answered without a turn
)

func fallbackTo(f *fallback) func(string) error {
	return func(s string) error {
		switch v := fallback(s); v {
		case fallbackNone, fallbackLocal, fallbackOpen:
			*f = v
			return nil
		}
		return errors.New("must be none, local or open")
	}
}

// options are for the guard.
func (f fallback) options() []middleware.Option {
	switch f {
	case fallbackLocal:
		return []middleware.Option{middleware.WithFallback(memlock.New())}
	case fallbackOpen:
		return []middleware.Option{middleware.WithFallback(lock.Open)}
	}
	return nil
}
