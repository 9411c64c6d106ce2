package join_test

import (
	"net/http"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// recovery notes what comes out of requests, and answers for those that have not been.
type recovery struct {
	begun  bool // the response, when the panic comes
	mu     sync.Mutex
	caught map[string]any // by User-Agent
}

func (c *recovery) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.caught[r.UserAgent()] = p
			if c.begun || p == http.ErrAbortHandler {
				panic(http.ErrAbortHandler) // or the part would pass for the whole
			}
			w.WriteHeader(http.StatusInternalServerError)
		}()
		next.ServeHTTP(w, r)
	})
}

func TestH7Panics(t *testing.T) {
	boom := func() { panic("boom") }
	abort := func() { panic(http.ErrAbortHandler) }
	tests := []struct {
		name   string
		head   bool // has been written
		end    func()
		caught map[string]any
	}{
		{"before the head", false, boom, map[string]any{"leader": "boom"}},
		{"abort before the head", false, abort, map[string]any{"leader": http.ErrAbortHandler}},
		{"Goexit before the head", false, runtime.Goexit, map[string]any{}},
		{"after the head", true, boom, map[string]any{"leader": "boom", "follower": http.ErrAbortHandler}},
		{"abort after the head", true, abort, map[string]any{"leader": http.ErrAbortHandler, "follower": http.ErrAbortHandler}},
		{"Goexit after the head", true, runtime.Goexit, map[string]any{"follower": http.ErrAbortHandler}},
	}
	eachProtocol(t, func(t *testing.T, p setup) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				p, recovery := p, &recovery{begun: tt.head, caught: make(map[string]any)}
				p.outside = recovery.around
				s := serve(t, p)
				leader, c := s.lead(s.get("leader"))
				followers := s.join(3)
				if tt.head {
					c.write("half")
					leader.reads("half")
				}
				c.begin(func(http.ResponseWriter, *http.Request) { tt.end() })
				for _, v := range followers {
					if tt.head {
						v.reads("half")
						v.broken()
						continue
					}
					assert.Equal(t, http.StatusInternalServerError, v.head().StatusCode)
					assert.NotContains(t, v.whole(), "boom")
				}
				s.await(c.ended, "the end of the handler")
				if tt.head || tt.caught["leader"] != "boom" {
					leader.broken()
				} else {
					assert.Equal(t, http.StatusInternalServerError, leader.head().StatusCode)
				}
				s.watched(0)
				s.works()
				recovery.mu.Lock()
				defer recovery.mu.Unlock()
				assert.Equal(t, tt.caught, recovery.caught)
			})
		}
	})
}

// swallow is a recovery that takes every panic for answered, as gin's does.
func swallow(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { _ = recover() }()
		next.ServeHTTP(w, r)
	})
}

// What is broken off is not taken for whole, whoever recovers.
func TestH7_PanicThatIsSwallowedFurtherOut(t *testing.T) {
	for _, cookie := range []bool{false, true} {
		t.Run(map[bool]string{false: "shared", true: "not shared"}[cookie], func(t *testing.T) {
			eachProtocol(t, func(t *testing.T, p setup) {
				p.outside = swallow
				s := serve(t, p)
				leader, c := s.lead(s.get("leader"))
				if cookie {
					c.do(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Set-Cookie", "a=b") })
				}
				c.write("half")
				leader.reads("half")
				c.begin(func(http.ResponseWriter, *http.Request) { panic("boom") })
				leader.broken()
			})
		})
	}
}
