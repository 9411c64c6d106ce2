package join_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware"
)

// timed sends get, and returns when it is answered, how long that took.
func (s *site) timed() (*visitor, func() time.Duration) {
	start := time.Now()
	v := s.send(s.get(""))
	took := make(chan time.Duration, 1)
	go func() {
		<-v.came
		took <- time.Since(start)
	}()
	return v, func() time.Duration { return <-took }
}

// Each is told when its own time is over, which for those that came later is later.
func TestBusyEachAfterItsOwnWait(t *testing.T) {
	const wait = 300 * time.Millisecond
	eachProtocol(t, func(t *testing.T, p setup) {
		p.guard = append(p.guard, middleware.WithWait(wait))
		s := serve(t, p)
		release := s.hold()
		defer release()
		start := time.Now()
		var all []*visitor
		var took []func() time.Duration
		for i := range 3 {
			v, d := s.timed()
			all, took = append(all, v), append(took, d)
			require.Eventually(t, func() bool { return time.Since(start) > time.Duration(i+1)*wait/4 }, patience, time.Millisecond)
		}
		for i, v := range all {
			assert.GreaterOrEqual(t, took[i](), wait)
			assert.Equal(t, http.StatusTooManyRequests, v.head().StatusCode)
			seconds, err := strconv.Atoi(v.head().Header.Get("Retry-After"))
			assert.NoError(t, err)
			assert.GreaterOrEqual(t, seconds, 1)
			assert.Empty(t, v.role())
		}
		s.watched(0)
	})
}

// When the leader's time is over another one leads, and may have the key.
func TestAnotherTakesOverLeading(t *testing.T) {
	const wait = time.Second
	eachProtocol(t, func(t *testing.T, p setup) {
		p.guard = append(p.guard, middleware.WithWait(wait))
		s := serve(t, p)
		release := s.hold()
		start := time.Now()
		leader := s.send(s.get("leader"))
		s.queued(1)
		require.Eventually(t, func() bool { return time.Since(start) > wait*3/4 }, patience, time.Millisecond)
		follower := s.join(1)[0]
		assert.Equal(t, http.StatusTooManyRequests, leader.head().StatusCode)
		release()
		c := s.next()
		c.write("after all")
		c.end()
		assert.Equal(t, "after all", follower.whole())
		assert.NotEqual(t, "joined", follower.role())
	})
}

func TestStoppedByTheLock(t *testing.T) {
	interrupt := func(s *site) {
		held, err := s.guard.Interrupt(s.t.Context(), "u")
		require.NoError(s.t, err)
		require.True(s.t, held)
	}
	tests := []struct {
		name    string
		maxHold time.Duration
		stop    func(*site)
		status  int
	}{
		{"MaxHold", 500 * time.Millisecond, func(*site) {}, http.StatusGatewayTimeout},
		{"Interrupt", time.Minute, interrupt, http.StatusConflict},
	}
	eachProtocol(t, func(t *testing.T, p setup) {
		for _, tt := range tests {
			for _, begun := range []bool{false, true} {
				t.Run(tt.name+" begun="+strconv.FormatBool(begun), func(t *testing.T) {
					p := p
					p.guard = append(p.guard, middleware.WithMaxHold(tt.maxHold))
					s := serve(t, p)
					leader, c := s.lead(s.get("leader"))
					all := append(s.join(3), leader)
					if begun {
						c.write("half")
						for _, v := range all {
							v.reads("half")
						}
					}
					tt.stop(s)
					c.do(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
					c.end()
					for _, v := range all {
						if begun {
							v.broken()
							continue
						}
						assert.Equal(t, tt.status, v.head().StatusCode)
						assert.NotEqual(t, "joined", v.role())
						v.whole()
					}
					s.works()
				})
			}
		}
	})
}

// deadline is a context whose deadline comes when the test says so.
type deadline struct {
	context.Context
	passed chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.passed }

func (d deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// A deadline that a middleware has set for the leader is the handler's. What it then writes
// is the leader's, as alone; others, who can't tell that from the whole, are broken off.
// Nobody joins it any more.
func TestDeadlineOfTheLeader(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		for _, begun := range []bool{false, true} {
			passed := make(chan struct{})
			p.outside = func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.UserAgent() == "leader" {
						r = r.WithContext(deadline{r.Context(), passed})
					}
					next.ServeHTTP(w, r)
				})
			}
			s := serve(t, p)
			leader, c := s.lead(s.get("leader"))
			followers := s.join(2)
			rest := "one,two"
			if begun {
				c.write("one,")
				leader.reads("one,")
				rest = "two"
			} else {
				c.do(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("one,")) })
			}
			close(passed)
			<-c.r.Context().Done()
			require.Equal(t, context.DeadlineExceeded, context.Cause(c.r.Context()))
			s.watched(0)
			c.write("two")
			c.end()
			assert.Equal(t, rest, leader.whole())
			for _, f := range followers {
				f.broken()
			}
			s.works()
		}
	})
}

// A handler that a deadline has stopped before it wrote anything leaves the answer to who
// set that, which is not for the others.
func TestDeadlineBeforeAnythingIsWritten(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		p.outside = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.UserAgent() != "leader" {
					next.ServeHTTP(w, r)
					return
				}
				ctx, cancel := context.WithTimeout(r.Context(), 300*time.Millisecond)
				defer cancel()
				next.ServeHTTP(w, r.WithContext(ctx))
				if ctx.Err() == context.DeadlineExceeded {
					w.WriteHeader(http.StatusGatewayTimeout)
				}
			})
		}
		s := serve(t, p)
		leader, c := s.lead(s.get("leader"))
		follower := s.join(1)[0]
		c.do(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		assert.Equal(t, context.DeadlineExceeded, context.Cause(c.r.Context()))
		c.end()
		assert.Equal(t, http.StatusGatewayTimeout, leader.head().StatusCode)
		c = s.next()
		c.write("its own")
		c.end()
		assert.Equal(t, "its own", follower.whole())
	})
}

// Who comes when a handler was asked to stop has nothing to do with how that ends.
func TestNobodyJoinsAHandlerThatIsToStop(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		s := serve(t, p)
		leader, old := s.lead(s.get("leader"))
		held, err := s.guard.Interrupt(t.Context(), "u")
		require.NoError(t, err)
		require.True(t, held)
		s.await(old.r.Context().Done(), "the interruption")
		s.watched(0)
		anew := s.send(s.get("anew"))
		s.queued(1)
		old.end()
		assert.Equal(t, http.StatusConflict, leader.head().StatusCode)
		c := s.next()
		c.write("anew")
		c.end()
		assert.Equal(t, "anew", anew.whole())
		assert.Equal(t, "queued", anew.role())
	})
}
