package main

import (
	"fmt"

	"github.com/alicebob/miniredis/v2"
)

// startEmbedded starts a Redis inside this process, so that the server runs
// with nothing installed.
func startEmbedded() (*miniredis.Miniredis, error) {
	m := miniredis.NewMiniRedis()
	// By itself miniredis, made for tests, expires nothing: a lock that was not
	// released would be held for ever. This has keys expire by the same clock
	// that TIME shows.
	m.ClockTTL(true)
	if err := m.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the embedded Redis: %w", err)
	}
	return m, nil
}
