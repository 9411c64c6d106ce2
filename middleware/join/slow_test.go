package join_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/join"
)

const (
	kept  = 64 << 10
	piece = 16 << 10
)

// text returns piece n of a long response.
func text(n int) string { return strings.Repeat(fmt.Sprintf("%15d\n", n), piece/16) }

// One that hardly reads is broken off when it is too far behind, and harms nobody.
func TestSlowClientBesideOthers(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		for _, slow := range []string{"follower", "leader"} {
			t.Run(slow, func(t *testing.T) {
				p := p
				p.start, p.sharer = smallBuffers, append(p.sharer, join.WithKept(kept))
				s := serve(t, p)
				var leader *visitor
				if slow == "leader" {
					leader = s.sendBy(s.slowClient(), s.get("leader"))
				} else {
					leader = s.send(s.get("leader"))
				}
				c := s.next()
				followers := s.join(2)
				laggard, fast := leader, followers
				if slow == "follower" {
					laggard, fast = s.sendBy(s.slowClient(), s.get("follower")), append(followers, leader)
					s.watched(4)
				}
				c.write(text(0))
				laggard.reads(text(0)[:1])
				for _, v := range fast {
					v.reads(text(0))
				}
				const pieces = 512 // 8 MiB
				for n := 1; n < pieces; n++ {
					c.write(text(n))
					for _, v := range fast {
						v.reads(text(n))
					}
				}
				s.watched(len(fast)) // it counts no more
				require.NoError(t, c.r.Context().Err())
				c.end()
				for _, v := range fast {
					assert.Empty(t, v.whole())
				}
				got, err := laggard.rest()
				assert.Error(t, err, "a clean end after %d bytes", len(got))
				assert.Less(t, len(got), pieces*piece-1)
				s.works()
			})
		}
	})
}

// One that is alone sets the pace, however slow it is and however much is written at a time.
func TestSlowClientAlone(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		for _, tt := range []struct{ kept, write int }{{kept, piece}, {kept, 16 * piece}, {join.DefaultKept, piece}, {join.DefaultKept, 80 * piece}} {
			t.Run(fmt.Sprintf("%d kept, %d at a time", tt.kept, tt.write), func(t *testing.T) {
				p := p
				p.start, p.sharer = smallBuffers, append(p.sharer, join.WithKept(int64(tt.kept)))
				s := serve(t, p)
				v := s.sendBy(s.slowClient(), s.get("leader"))
				c := s.next()
				const pieces = 480
				each := tt.write / piece
				done := c.begin(func(w http.ResponseWriter, _ *http.Request) {
					for n := 0; n < pieces; n += each {
						var b strings.Builder
						for i := range each {
							b.WriteString(text(n + i))
						}
						if _, err := io.WriteString(w, b.String()); !assert.NoError(t, err) {
							return
						}
					}
					w.(http.Flusher).Flush()
				})
				for n := range pieces {
					if n == 10 {
						select {
						case <-done:
							require.Fail(t, "the handler does not wait for its client")
						default:
						}
					}
					v.reads(text(n))
				}
				s.await(done, "the handler")
				c.end()
				assert.Empty(t, v.whole())
			})
		}
	})
}

// When the one that set the pace has left, those that are slower do.
func TestTheFastestLeaves(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		p.start, p.sharer = smallBuffers, append(p.sharer, join.WithKept(2<<20))
		s := serve(t, p)
		fast, c := s.lead(s.get("leader"))
		slow := s.sendBy(s.slowClient(), s.get("follower"))
		s.watched(2)
		const pieces = 512
		for n := range 32 {
			c.write(text(n))
			fast.reads(text(n))
		}
		done := c.begin(func(w http.ResponseWriter, _ *http.Request) {
			for n := 32; n < pieces; n++ {
				_, err := io.WriteString(w, text(n))
				assert.NoError(t, err)
			}
			w.(http.Flusher).Flush()
		})
		fast.hangUp()
		for n := range pieces {
			slow.reads(text(n))
		}
		s.await(done, "the handler")
		c.end()
		assert.Empty(t, slow.whole())
	})
}

// One that was broken off does not keep a handler going that all others have left.
func TestSlowLeaderAloneIsNobody(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		p.start, p.sharer = smallBuffers, append(p.sharer, join.WithKept(kept))
		s := serve(t, p)
		leader := s.sendBy(s.slowClient(), s.get("leader"))
		c := s.next()
		follower := s.join(1)[0]
		for n := range 512 {
			c.write(text(n))
			follower.reads(text(n))
		}
		follower.hangUp()
		s.await(c.r.Context().Done(), "the end of the handler's context")
		assert.ErrorIs(t, context.Cause(c.r.Context()), context.Canceled)
		c.end()
		leader.broken()
		s.works()
	})
}
