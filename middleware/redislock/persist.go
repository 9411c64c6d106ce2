package redislock

import "time"

// persist makes an attempt and, where that fails quickly, others, until one is
// settled: most often it had got a connection that the server had closed, or one
// that took longer to open than the lease was to last. Behind TLS a pool may be
// full of connections that the server has closed, and each shows only when it is
// used. All that is attempted can be repeated. It takes bound at most, of which
// one attempt may be all.
func persist(bound time.Duration, attempt func(bound time.Duration) (o outcome, settled bool)) {
	start := time.Now()
	o, settled := attempt(bound)
	for alike, n := 0, 1; !settled && alike < 2; n++ {
		if n >= retriesAtOnce {
			time.Sleep(retryPause)
		}
		took := time.Since(start)
		if took > min(retryWithin, bound) {
			return
		}
		before := o
		o, settled = attempt(bound - took)
		if o == before && o != unknown && o != unlooked {
			alike++ // nobody is there, or the server will not
		}
	}
}
