//go:build !soak

package join_test

import "time"

const randomTime = 3 * time.Second
