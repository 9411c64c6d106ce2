//go:build soak

package main

import "time"

const soakTime = 30 * time.Second
