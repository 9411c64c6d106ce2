package join

import (
	"errors"
	"fmt"
)

// An Option changes how a [Sharer] works. Where one is given twice the last wins.
type Option func(*config) error

type config struct {
	kept    int64
	private bool
}

// DefaultKept is how much of a response is kept unless [WithKept] says otherwise, 1 MiB.
const DefaultKept = 1 << 20

func newConfig(opts []Option) (config, error) {
	c := config{kept: DefaultKept}
	var errs []error
	for i, opt := range opts {
		if opt == nil {
			errs = append(errs, fmt.Errorf("option %d of %d is nil", i+1, len(opts)))
			continue
		}
		errs = append(errs, opt(&c))
	}
	return c, errors.Join(errs...)
}

// minKept is a few blocks of memory.
const minKept = 16 << 10

// WithKept sets how many bytes of a response are in memory while it is in flight. It is how
// far its slowest client may be behind its fastest; a request that comes when the beginning
// is not kept any more runs for itself. The default is [DefaultKept]; less than 16 KiB are
// refused.
func WithKept(bytes int64) Option {
	return func(c *config) error {
		c.kept = bytes
		if bytes < minKept {
			return fmt.Errorf("WithKept: %d bytes: must be %d or more", bytes, minKept)
		}
		return nil
	}
}

// WithPrivate also shares responses that say Cache-Control: private or no-store, which
// frameworks put on all they write. That is right where all that tells users apart is in
// the key or in the fingerprint. By default each request gets a response of its own that
// says so.
func WithPrivate() Option {
	return func(c *config) error {
		c.private = true
		return nil
	}
}
