package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware"
)

// The answer goes on while anybody waits for it, here and upstream, and no longer.
func TestClientsLeaveOneByOne(t *testing.T) {
	for _, through := range []bool{false, true} {
		for _, stream := range []bool{false, true} {
			for _, leaves := range []string{"leader", "joined"} {
				t.Run(fmt.Sprintf("upstream %v, stream %v, %s leaves first", through, stream, leaves), func(t *testing.T) {
					model := newMeteredModel()
					var b backend = model
					if through {
						b = upstreamAt(t, serveTest(t, model), "")
					}
					base := startServer(t, b, time.Minute)
					client := newClient(t)
					c := call{user: "alice", session: "s", prompt: "hello", stream: stream}
					// begin returns what cancels the request and what says that it has ended.
					begin := func() (context.CancelFunc, <-chan error) {
						ctx, cancel := context.WithCancel(t.Context())
						ended := make(chan error, 1)
						go func() {
							resp, err := client.Do(c.request(t, base).WithContext(ctx))
							if err == nil {
								_, err = io.ReadAll(resp.Body)
								_ = resp.Body.Close()
							}
							ended <- err
						}()
						return cancel, ended
					}
					firstLeaves, first := begin()
					require.Eventually(t, func() bool { return model.runs.Load() == 1 }, 5*time.Second, time.Millisecond)
					secondLeaves, second := begin()
					requireFollowers(t, 1)
					if leaves == "joined" {
						firstLeaves, first, secondLeaves, second = secondLeaves, second, firstLeaves, first
					}
					firstLeaves()
					require.ErrorIs(t, receive(t, first), context.Canceled)
					third, thirdEnded := begin() // it is still there to be joined
					requireFollowers(t, map[string]int{"leader": 2, "joined": 1}[leaves])
					assert.Zero(t, model.cut.Load())

					third()
					require.ErrorIs(t, receive(t, thirdEnded), context.Canceled)
					assert.Zero(t, model.cut.Load())
					secondLeaves()
					require.ErrorIs(t, receive(t, second), context.Canceled)
					require.Eventually(t, func() bool { return model.cut.Load() == 1 }, 5*time.Second, time.Millisecond)
					close(model.let)
					assert.Equal(t, http.StatusOK, (&call{user: "alice", session: "s", prompt: "again"}).send(t, client, base).status)
					assert.EqualValues(t, 2, model.runs.Load())
				})
			}
		}
	}
}

// Who hangs up in mid-stream harms nobody: the other one gets all of it, token by token.
func TestHangUpInMidStream(t *testing.T) {
	for _, leaves := range []int{0, 1} { // the leader, who has joined
		next, cut := make(chan string), make(chan struct{})
		base := through(t, "", func(w http.ResponseWriter, r *http.Request) {
			events := startEvents(w)
			for {
				select {
				case token := <-next:
					if token == "" {
						events.done()
						return
					}
					events.line("data: " + token)
					events.line("")
				case <-r.Context().Done():
					close(cut)
					return
				}
			}
		})
		client := newClient(t)
		var bodies []*bufio.Reader
		var hangUp []context.CancelFunc
		for _, role := range []string{"leader", "joined"} {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp, err := client.Do((&call{user: "alice", stream: true}).request(t, base).WithContext(ctx))
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, role, resp.Header.Get(middleware.RoleHeader))
			bodies, hangUp = append(bodies, bufio.NewReader(resp.Body)), append(hangUp, cancel)
		}
		expect := func(body *bufio.Reader, want string) {
			t.Helper()
			for _, line := range []string{"data: " + want + "\n", "\n"} {
				got, err := body.ReadString('\n')
				require.NoError(t, err)
				require.Equal(t, line, got)
			}
		}
		next <- "one"
		expect(bodies[0], "one")
		expect(bodies[1], "one")
		hangUp[leaves]()
		_, err := io.ReadAll(bodies[leaves])
		require.ErrorIs(t, err, context.Canceled)
		stays := bodies[1-leaves]
		next <- "two"
		expect(stays, "two")
		next <- "three"
		expect(stays, "three")
		next <- ""
		expect(stays, "[DONE]")
		_, err = stays.ReadByte()
		require.ErrorIs(t, err, io.EOF)
		select {
		case <-cut:
			t.Error("the call to the upstream was cut off")
		default:
		}
	}
}
