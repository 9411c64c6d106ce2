package join_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reqlock/reqlock/middleware/join"
)

func TestH2WhatIsNotForOthers(t *testing.T) {
	tests := []struct {
		name, header, value string
		outside             bool // set by a middleware around the guard
		private             bool // WithPrivate
		shared              bool
	}{
		{"cookie", "Set-Cookie", "id=1", false, false, false},
		{"cookie WithPrivate", "Set-Cookie", "id=1", false, true, false},
		{"cookie from outside", "Set-Cookie", "id=1", true, false, true},
		{"private", "Cache-Control", "private", false, false, false},
		{"private among others", "Cache-Control", "max-age=5, Private=\"X-A\"", false, false, false},
		{"private from outside", "Cache-Control", "private", true, false, false},
		{"private WithPrivate", "Cache-Control", "private", false, true, true},
		{"no-store", "Cache-Control", "no-store", false, false, false},
		{"no-store WithPrivate", "Cache-Control", "no-store", false, true, true},
		{"no-cache", "Cache-Control", "no-cache", false, false, true},
		{"public", "Cache-Control", "public, max-age=1", false, false, true},
		{"vary by all", "Vary", "*", false, false, false},
		{"vary by all among others", "Vary", "Accept, *", false, false, false},
		{"vary by all WithPrivate", "Vary", "*", false, true, false},
		{"vary by what is not compared", "Vary", "Accept, user-agent", false, false, false},
		{"vary", "Vary", "Accept", false, false, true},
		{"name not canonical", "set-cookie", "id=1", false, false, false},
	}
	eachProtocol(t, func(t *testing.T, p setup) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				p := p
				if tt.private {
					p.sharer = append(p.sharer, join.WithPrivate())
				}
				if tt.outside {
					p.outside = func(next http.Handler) http.Handler {
						return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							w.Header().Set(tt.header, tt.value)
							next.ServeHTTP(w, r)
						})
					}
				}
				s := serve(t, p)
				leader, c := s.lead(s.get("leader"))
				all := append(s.join(3), leader)
				runs := 1
				for {
					c.do(func(w http.ResponseWriter, _ *http.Request) {
						if !tt.outside {
							w.Header()[tt.header] = []string{tt.value}
						}
						w.Header().Set("X-Run", fmt.Sprint(runs))
						_, _ = fmt.Fprintf(w, "run %d", runs)
						_ = http.NewResponseController(w).Flush()
					})
					if !tt.shared {
						s.queued(int32(len(all) - runs)) // one at a time
					}
					c.end()
					if tt.shared || runs == len(all) {
						break
					}
					c, runs = s.next(), runs+1
				}
				seen := make(map[string]int)
				for _, v := range all {
					n := v.head().Header.Get("X-Run")
					assert.Equal(t, "run "+n, v.whole())
					assert.Equal(t, tt.value, v.head().Header.Get(tt.header))
					assert.Equal(t, tt.shared && v != leader, v.role() == "joined")
					seen[n]++
				}
				if tt.shared {
					assert.Equal(t, map[string]int{"1": 4}, seen)
				} else {
					assert.Equal(t, map[string]int{"1": 1, "2": 1, "3": 1, "4": 1}, seen)
				}
			})
		}
	})
}

// A response that says nothing until its handler returns is for others or not all the same.
func TestH2CookieWithoutABody(t *testing.T) {
	s := serve(t, setup{})
	leader, c := s.lead(s.get("leader"))
	follower := s.join(1)[0]
	for i, v := range []*visitor{leader, follower} {
		if i > 0 {
			c = s.next()
		}
		cookie := fmt.Sprintf("id=%d", i)
		c.do(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Set-Cookie", cookie) })
		c.end()
		assert.Equal(t, []string{cookie}, v.head().Header["Set-Cookie"])
	}
}
