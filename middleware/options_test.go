package middleware_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

func TestNewGuardRefuses(t *testing.T) {
	tests := []struct {
		name string
		l    lock.Locker
		key  keyfuncs.Func
		opt  middleware.Option
		want string
	}{
		{"no Locker", nil, user, middleware.WithWait(0), "the lock.Locker is nil"},
		{"a nil pointer as Locker", (*memlock.Locker)(nil), user, middleware.WithWait(0), "the lock.Locker is nil"},
		{"no key", memlock.New(), nil, middleware.WithWait(0), "the key function is nil"},
		{"nil option", memlock.New(), user, nil, "option 1 of 1 is nil"},
		{"negative TTL", memlock.New(), user, middleware.WithTTL(-time.Second), "WithTTL: lock: TTL of -1s"},
		{"TTL too short", memlock.New(), user, middleware.WithTTL(lock.MinTTL - 1), "WithTTL: lock: TTL of 49.999999ms"},
		{"negative wait", memlock.New(), user, middleware.WithWait(-time.Second), "WithWait: lock: Wait of -1s"},
		{"negative queue", memlock.New(), user, middleware.WithMaxQueue(-1), "WithMaxQueue: lock: MaxQueue of -1"},
		{"negative hold", memlock.New(), user, middleware.WithMaxHold(-time.Second), "WithMaxHold: -1s"},
		{"TTL too long", memlock.New(), user, middleware.WithTTL(lock.MaxTTL + 1), "WithTTL: lock: TTL of 24h0m0.000000001s"},
		{"wait without a unit", memlock.New(), user, middleware.WithWait(3), "WithWait: lock: Wait of 3ns is as good as none: is the unit missing?"},
		{"hold without a unit", memlock.New(), user, middleware.WithMaxHold(30), "WithMaxHold: 30ns is less than any handler takes: is the unit missing?"},
		{"nil skip", memlock.New(), user, middleware.WithSkip(nil), "WithSkip: the function is nil"},
		{"nil deny", memlock.New(), user, middleware.WithDeny(nil), "WithDeny: the function is nil"},
		{"nil Sharer", memlock.New(), user, middleware.WithJoin(nil), "WithJoin: the Sharer is nil"},
		{"a nil pointer as Sharer", memlock.New(), user, middleware.WithJoin((*join.Sharer)(nil)), "WithJoin: the Sharer is nil"},
		{"nil fingerprint", memlock.New(), user, middleware.WithFingerprint(nil), "WithFingerprint: the function is nil"},
		{"negative body", memlock.New(), user, middleware.WithMaxBody(-1), "WithMaxBody: -1: must not be negative"},
		{"nil observer", memlock.New(), user, middleware.WithObserver(nil), "WithObserver: the observer is nil"},
	}
	var everything []middleware.Option
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := middleware.NewGuard(tt.l, tt.key, tt.opt)
			assert.Nil(t, g)
			require.ErrorContains(t, err, "middleware: "+tt.want)
		})
		everything = append(everything, tt.opt)
	}

	t.Run("all at once", func(t *testing.T) {
		_, err := middleware.NewGuard((*memlock.Locker)(nil), nil, everything...)
		require.Error(t, err)
		for _, tt := range tests[3:] {
			want := strings.Replace(tt.want, "option 1 of 1", "option 4 of 19", 1)
			assert.ErrorContains(t, err, want)
		}
		assert.ErrorContains(t, err, "the lock.Locker is nil")
		assert.ErrorContains(t, err, "the key function is nil")
	})
}

func TestOptionsReachTheLocker(t *testing.T) {
	tests := []struct {
		name string
		opts []middleware.Option
		want lock.Options
	}{
		{"defaults", nil, lock.Options{Wait: middleware.DefaultWait}},
		{"reject at once", []middleware.Option{middleware.WithWait(0)}, lock.Options{}},
		{"L24: the wait may exceed the TTL", []middleware.Option{middleware.WithTTL(time.Second), middleware.WithWait(time.Minute)}, lock.Options{TTL: time.Second, Wait: time.Minute}},
		{"queue", []middleware.Option{middleware.WithMaxQueue(7)}, lock.Options{Wait: middleware.DefaultWait, MaxQueue: 7}},
		{"the last wins", []middleware.Option{middleware.WithWait(time.Second), middleware.WithWait(time.Minute)}, lock.Options{Wait: time.Minute}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			locks := &stub{}
			srv := guarded(t, http1, newGuard(t, locks, tt.opts...), func(http.ResponseWriter, *http.Request) {})
			resp, err := srv.Client().Do(request(t, http.MethodPost, srv.URL))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, tt.want, locks.options)
		})
	}
}
