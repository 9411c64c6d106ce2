//go:build soak

package join_test

import "time"

const randomTime = 30 * time.Second
