//go:build !soak

package main

import "time"

const soakTime = 3 * time.Second
