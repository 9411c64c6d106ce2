package middleware_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/guardtest"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// A scripted Sharer notes what it is asked for, and leads unless it has answers, of which
// it gives one after the other.
type scripted struct {
	works   []string
	answers []error // of followers; nil: a response
}

func (s *scripted) Share(w http.ResponseWriter, r *http.Request, c middleware.Call) (bool, error) {
	s.works = append(s.works, c.Work)
	if len(s.answers) == 0 {
		return true, c.Lead(w, r, untold{})
	}
	err := s.answers[0]
	s.answers = s.answers[1:]
	if err == nil || err == middleware.ErrBrokenOff {
		c.Joined()
		_, _ = io.WriteString(w, "another's")
	}
	return false, err
}

type untold struct{}

func (untold) Started() {}
func (untold) Stopped() {}

// serveShared has a guarded handler answer that writes the body of its request.
func serveShared(t *testing.T, s middleware.Sharer, r *http.Request, opts ...middleware.Option) *httptest.ResponseRecorder {
	t.Helper()
	g, err := middleware.NewGuard(memlock.New(), user, append([]middleware.Option{middleware.WithJoin(s)}, opts...)...)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	g.Serve(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	return w
}

func post(body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/path", body)
	r.Header.Set("X-User-ID", "u")
	return r
}

// Which requests may share is told by their headers and bodies, and whatever the answer the
// handler has the body whole.
func TestWhichRequestsMayShare(t *testing.T) {
	with := func(r *http.Request, name, value string) *http.Request {
		r.Header.Set(name, value)
		return r
	}
	method := func(m string) *http.Request {
		r := post(nil)
		r.Method = m
		return r
	}
	unknown := func(text string) *http.Request { return post(io.MultiReader(strings.NewReader(text))) }
	brokenOff := post(io.MultiReader(strings.NewReader("text"), unreadable{}))
	brokenOff.ContentLength = 10
	small := middleware.WithMaxBody(4)
	tests := []struct {
		name   string
		r      *http.Request
		opt    middleware.Option
		shares bool
	}{
		{"body", post(strings.NewReader("text")), small, true},
		{"no body", post(nil), small, true},
		{"no body, and none is read", post(nil), middleware.WithMaxBody(0), true},
		{"body, and none is read", post(strings.NewReader("text")), middleware.WithMaxBody(0), false},
		{"too large", post(strings.NewReader("text!")), small, false},
		{"unknown length", unknown("text"), small, false},
		{"breaks off", brokenOff, middleware.WithMaxBody(100), false},
		{"GET", method(http.MethodGet), small, true},
		{"HEAD", method(http.MethodHead), small, true},
		{"CONNECT", method(http.MethodConnect), small, false},
		{"TRACE", method(http.MethodTrace), small, false},
		{"Range", with(post(nil), "Range", "bytes=0-1"), small, false},
		{"If-None-Match", with(post(nil), "If-None-Match", "*"), small, false},
		{"If-Modified-Since", with(post(nil), "If-Modified-Since", "x"), small, false},
		{"Upgrade", with(post(nil), "Upgrade", "websocket"), small, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := ""
			if tt.r.ContentLength != 0 {
				want = "text"
			}
			if tt.name == "too large" {
				want = "text!"
			}
			var s scripted
			w := serveShared(t, &s, tt.r, tt.opt)
			assert.Equal(t, want, w.Body.String())
			assert.Equal(t, "leader", w.Header().Get(middleware.RoleHeader))
			assert.Equal(t, tt.shares, len(s.works) == 1)
		})
	}
}

type unreadable struct{}

func (unreadable) Read([]byte) (int, error) { return 0, errors.New("broken off") }

// A body that the key function has read is known, whatever its length was said to be.
func TestABodyThatTheKeyFunctionHasReadIsShared(t *testing.T) {
	var s scripted
	g, err := middleware.NewGuard(memlock.New(), keyfuncs.JSON("user"), middleware.WithJoin(&s))
	require.NoError(t, err)
	w := httptest.NewRecorder()
	g.Serve(w, post(io.MultiReader(strings.NewReader(`{"user":"u"}`))), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	require.Equal(t, `{"user":"u"}`, w.Body.String())
	require.Len(t, s.works, 1)
}

// Whatever the fingerprint says, keys, methods and origins are told apart.
func TestH1_H35_WhatAlwaysTellsRequestsApart(t *testing.T) {
	same := middleware.WithFingerprint(func(*http.Request, []byte) (string, error) { return "the same", nil })
	work := func(change func(*http.Request)) string {
		var s scripted
		r := post(strings.NewReader("text"))
		change(r)
		serveShared(t, &s, r, same)
		require.Len(t, s.works, 1)
		return s.works[0]
	}
	first := work(func(*http.Request) {})
	require.Equal(t, first, work(func(r *http.Request) { r.URL.Path = "/other" }), "that is the fingerprint's")
	require.NotEqual(t, first, work(func(r *http.Request) { r.Header.Set("X-User-ID", "v") }))
	require.NotEqual(t, first, work(func(r *http.Request) { r.Method = http.MethodPut }))
	require.NotEqual(t, first, work(func(r *http.Request) { r.Header.Set("Origin", "https://a.example") }))
}

func TestFingerprintFunction(t *testing.T) {
	t.Run("gets the body", func(t *testing.T) {
		var s scripted
		var got, read string
		w := serveShared(t, &s, post(strings.NewReader(`{"user":"u"}`)), middleware.WithFingerprint(func(r *http.Request, body []byte) (string, error) {
			got = string(body)
			v, err := keyfuncs.JSON("user")(r)
			read = v
			return "", err
		}))
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, `{"user":"u"}`, w.Body.String())
		require.Equal(t, `{"user":"u"}`, got)
		require.Equal(t, "u", read)
	})
	tests := []struct {
		name   string
		err    error
		status int
	}{
		{"missing", &keyfuncs.Error{Source: "value", Name: "user", Err: keyfuncs.ErrMissing}, http.StatusBadRequest},
		{"failed", errors.New("database"), http.StatusInternalServerError},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s scripted
			w := serveShared(t, &s, post(nil), middleware.WithFingerprint(func(*http.Request, []byte) (string, error) { return "", tt.err }))
			require.Equal(t, tt.status, w.Code)
			require.Empty(t, s.works)
			require.NotContains(t, w.Body.String(), "database")
		})
	}
}

// What becomes of a request that follows.
func TestFollowers(t *testing.T) {
	tests := []struct {
		name    string
		answers []error
		status  int
		body    string
		role    string
		joined  int // events
	}{
		{"answered", []error{nil}, http.StatusOK, "another's", "joined", 1},
		{"not for others", []error{middleware.ErrNotShared}, http.StatusOK, "text", "queued", 0},
		{"the handler has panicked", []error{middleware.ErrRunFailed}, http.StatusInternalServerError, `"reason":"failed"`, "", 0},
		{"its own time is up, and the key free", []error{middleware.ErrNotStarted}, http.StatusOK, "text", "queued", 0},
		{"the Sharer has failed", []error{errors.New("internal")}, http.StatusInternalServerError, `"reason":"failed"`, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var seen guardtest.Events
			w := serveShared(t, &scripted{answers: tt.answers}, post(strings.NewReader("text")), middleware.WithObserver(seen.Observe))
			assert.Equal(t, tt.status, w.Code)
			assert.Contains(t, w.Body.String(), tt.body)
			assert.NotContains(t, w.Body.String(), "internal")
			assert.Equal(t, tt.role, w.Header().Get(middleware.RoleHeader))
			assert.Len(t, guardtest.Of[lock.Joined](&seen), tt.joined)
		})
	}
	t.Run("broken off", func(t *testing.T) {
		var seen guardtest.Events
		require.PanicsWithValue(t, http.ErrAbortHandler, func() {
			serveShared(t, &scripted{answers: []error{middleware.ErrBrokenOff}}, post(nil), middleware.WithObserver(seen.Observe))
		})
		require.Equal(t, middleware.ErrBrokenOff, guardtest.Of[lock.Joined](&seen)[0].Err)
	})
	t.Run("its client has left", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var seen guardtest.Events
		serveShared(t, &scripted{answers: []error{context.Canceled}}, post(nil).WithContext(ctx), middleware.WithObserver(seen.Observe))
		require.Empty(t, guardtest.Of[lock.Denied](&seen))
		require.Len(t, guardtest.Of[lock.Abandoned](&seen), 1)
		require.Panics(t, func() { // nothing less makes sure of it with this ResponseWriter
			serveShared(t, &scripted{answers: []error{middleware.ErrBrokenOff}}, post(nil).WithContext(ctx), middleware.WithObserver(seen.Observe))
		})
	})
}

// announced is a Locker that tells of those who wait.
type announced struct {
	lock.Locker
	waits chan struct{}
}

func (a announced) Acquire(ctx context.Context, key string, o lock.Options) (lock.Lease, error) {
	if o.Wait > 0 {
		a.waits <- struct{}{}
	}
	return a.Locker.Acquire(ctx, key, o)
}

// A request that may share says how it came by its response, unless it is not to, or there
// is none.
func TestRoleHeader(t *testing.T) {
	tests := []struct {
		name   string
		opts   []middleware.Option
		free   string // the role when the key is free
		queued string // when it is free later
	}{
		{"by default", []middleware.Option{middleware.WithJoin(new(scripted))}, "leader", "queued"},
		{"switched off", []middleware.Option{middleware.WithJoin(new(scripted)), middleware.WithoutRoleHeader()}, "", ""},
		{"without WithJoin", nil, "", ""},
		{"not shared", []middleware.Option{middleware.WithJoin(new(scripted)), middleware.WithMaxBody(0)}, "leader", "queued"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			locks := announced{memlock.New(), make(chan struct{}, 1)}
			g := newGuard(t, locks, append(tt.opts, middleware.WithWait(time.Minute))...)
			role := func() string {
				w := httptest.NewRecorder()
				g.Serve(w, post(strings.NewReader("text")), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
				require.Equal(t, http.StatusOK, w.Code)
				return w.Header().Get(middleware.RoleHeader)
			}
			if len(tt.opts) > 0 { // without, it waits as soon as it asks
				require.Equal(t, tt.free, role())
			}
			lease, err := locks.Locker.Acquire(t.Context(), "u", lock.Options{})
			require.NoError(t, err)
			done := make(chan string)
			go func() { done <- role() }()
			<-locks.waits
			require.NoError(t, lease.Release(t.Context()))
			require.Equal(t, tt.queued, <-done)
		})
	}
	t.Run("denied", func(t *testing.T) {
		for _, answers := range [][]error{nil, {middleware.ErrRunFailed}} {
			locks := memlock.New()
			_, err := locks.Acquire(t.Context(), "u", lock.Options{})
			require.NoError(t, err)
			g := newGuard(t, locks, middleware.WithJoin(&scripted{answers: answers}), middleware.WithWait(0))
			w := httptest.NewRecorder()
			require.False(t, g.Serve(w, post(nil), http.NotFoundHandler()))
			require.GreaterOrEqual(t, w.Code, 400)
			require.Empty(t, w.Header().Get(middleware.RoleHeader))
		}
	})
}

// A guard inside of one that shares does not share again, nor does it say another role:
// the response is the outer one's.
func TestNestedGuardsShareOnce(t *testing.T) {
	var outer, inner scripted
	locks := memlock.New()
	in := newGuard(t, locks, middleware.WithJoin(&inner))
	other, err := middleware.NewGuard(locks, keyfuncs.Path, middleware.WithJoin(&inner))
	require.NoError(t, err)
	for _, in := range []*middleware.Guard{in, other} {
		w := httptest.NewRecorder()
		w.Header().Set(middleware.RoleHeader, "")
		newGuard(t, locks, middleware.WithJoin(&outer)).Serve(w, post(nil), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(middleware.RoleHeader, "mine")
			in.Serve(w, r, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text") }))
		}))
		require.Equal(t, "text", w.Body.String())
		require.Equal(t, "mine", w.Header().Get(middleware.RoleHeader))
		require.Empty(t, inner.works)
	}
	require.Len(t, outer.works, 2)
}

// A follower waits for the key as long as it would alone, whoever leads it.
func TestFollowersWaitTheirOwnTime(t *testing.T) {
	for range 20 { // who leads next is a matter of chance
		synctest.Test(t, followersWaitTheirOwnTime)
	}
}

func followersWaitTheirOwnTime(t *testing.T) {
	locks := memlock.New()
	lease, err := locks.Acquire(t.Context(), "u", lock.Options{})
	require.NoError(t, err)
	s := join.New(nil)
	g := newGuard(t, locks, middleware.WithJoin(s), middleware.WithWait(10*time.Second))
	took := make(chan time.Duration, 3)
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 3 * time.Second)
			began := time.Now()
			w := httptest.NewRecorder()
			assert.False(t, g.Serve(w, post(nil), http.NotFoundHandler()))
			assert.Equal(t, http.StatusTooManyRequests, w.Code)
			took <- time.Since(began)
		})
	}
	all.Wait()
	for range 3 {
		require.Equal(t, 10*time.Second, <-took)
	}
	require.NoError(t, lease.Release(t.Context()))
}
