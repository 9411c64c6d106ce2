package join_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestH6LeaderLeavesWhileItWaitsForTheKey(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		s := serve(t, p)
		release := s.hold()
		leader := s.send(s.get("leader"))
		s.queued(1)
		followers := s.join(2)
		leader.hangUp()
		s.watched(2)
		release()
		c := s.next()
		c.write("all of it")
		c.end()
		assert.Equal(t, []string{"all of it", "all of it"}, readAll(followers))
		s.watched(0)
		s.works()
	})
}

func TestH6LeaderLeavesBeforeTheHead(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		s := serve(t, p)
		leader, c := s.lead(s.get("leader"))
		followers := s.join(2)
		leader.hangUp()
		s.watched(2)
		require.NoError(t, c.r.Context().Err())
		late := s.join(1)
		c.write("all of it")
		c.end()
		assert.Equal(t, []string{"all of it", "all of it", "all of it"}, readAll(append(followers, late...)))
		assert.Equal(t, "joined", late[0].role())
	})
}

// H3: what the leader has read, and what it has not, is the followers' just once.
func TestH3H6LeaderLeavesInMidStream(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		s := serve(t, p)
		leader, c := s.lead(s.get("leader"))
		followers := s.join(2)
		c.write("one,")
		leader.reads("one,")
		followers[0].reads("one,")
		leader.hangUp()
		s.watched(2)
		require.NoError(t, c.r.Context().Err())
		late := s.join(1)
		late[0].reads("one,")
		c.write("two,")
		c.do(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "three") })
		c.end()
		assert.Equal(t, []string{"two,three", "one,two,three", "two,three"}, readAll(append(followers, late...)))
		s.works()
	})
}

func TestH6FollowerLeavesAlone(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		s := serve(t, p)
		leader, c := s.lead(s.get("leader"))
		followers := s.join(3)
		followers[0].hangUp()
		s.watched(3)
		c.write("one,")
		followers[1].reads("one,")
		followers[1].hangUp()
		s.watched(2)
		require.NoError(t, c.r.Context().Err())
		c.write("two")
		c.end()
		assert.Equal(t, []string{"one,two", "one,two"}, readAll([]*visitor{leader, followers[2]}))
	})
}

// A request that comes when all others have left has nothing to do with their handler,
// which is told to stop, but for waiting until it has.
func TestH6LastOneLeaves(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		for _, streams := range []bool{false, true} {
			s := serve(t, p)
			leader, old := s.lead(s.get("leader"))
			followers := s.join(2)
			if streams {
				old.write("old")
				leader.reads("old")
			}
			for _, v := range append(followers, leader) {
				require.NoError(t, old.r.Context().Err())
				v.hangUp()
			}
			s.await(old.r.Context().Done(), "the end of the handler's context")
			require.ErrorIs(t, context.Cause(old.r.Context()), context.Canceled)
			anew := s.send(s.get("anew"))
			s.queued(1)
			joined := s.join(1)[0]
			old.do(func(w http.ResponseWriter, _ *http.Request) {
				assert.Eventually(t, func() bool { // as soon as the connection says so
					_, err := io.WriteString(w, "more")
					return err != nil || http.NewResponseController(w).Flush() != nil
				}, patience, time.Millisecond)
			})
			old.end()
			c := s.next()
			require.NoError(t, c.r.Context().Err())
			c.write("new")
			c.end()
			assert.Equal(t, []string{"new", "new"}, readAll([]*visitor{anew, joined}))
			assert.Equal(t, []string{"queued", "joined"}, []string{anew.role(), joined.role()})
		}
	})
}

// Nobody is left in line for a response that nobody waits for.
func TestH6AllLeaveWhileTheyWaitForTheKey(t *testing.T) {
	s := serve(t, setup{})
	release := s.hold()
	leader := s.send(s.get("leader"))
	s.queued(1)
	followers := s.join(2)
	for _, v := range append(followers, leader) {
		v.hangUp()
	}
	s.queued(0)
	s.watched(0)
	release()
	s.works()
}

// Values of the leader's context are the handler's even when the leader has left.
func TestH6TheHandlerKeepsItsContextsValues(t *testing.T) {
	s := serve(t, setup{outside: signIn})
	leader, c := s.lead(s.get("ann"))
	follower := s.join(1)[0]
	leader.hangUp()
	s.watched(1)
	assert.Equal(t, "ann", c.r.Context().Value(userKey{}))
	c.end()
	assert.Empty(t, follower.whole())
	<-leader.came
	assert.True(t, errors.Is(leader.err, context.Canceled))
}

// A client that only says that it will send nothing more still reads.
func TestH6_AHalfClosedClientGetsAll(t *testing.T) {
	s := serve(t, setup{})
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	r := s.get("half-closed")
	r.Close = true
	require.NoError(t, r.Write(conn))
	c := s.next()
	c.write("one,")
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	<-c.r.Context().Done()
	c.write("two")
	c.end()
	resp, err := http.ReadResponse(bufio.NewReader(conn), r)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "one,two", string(body))
}

// fails takes no more than the header.
type fails struct{ http.ResponseWriter }

func (fails) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

// A writer further out that fails has a client that has left, to the handler.
func TestH6_AWriterThatFails(t *testing.T) {
	s := serve(t, setup{outside: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(fails{w}, r) })
	}})
	leader, c := s.lead(s.get("leader"))
	c.write(strings.Repeat("x", 4<<10)) // what is short is not sent before the end
	s.await(c.r.Context().Done(), "the end of the handler's context")
	c.end()
	leader.broken()
}
