package join_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/join"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// One handler runs for 200 clients, and each has its response.
func TestEqualRequestsShareOneResponse(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprintf("streams=%v", streams), func(t *testing.T) {
				s := serve(t, p)
				all := make([]*visitor, 200)
				for i := range all {
					all[i] = s.send(s.request(http.MethodPost, "/", "hello"))
				}
				c := s.next()
				s.watched(len(all))
				var want strings.Builder
				for i := range 20 {
					token := fmt.Sprintf("token %d\n", i)
					want.WriteString(token)
					if streams {
						c.write(token)
					} else {
						c.do(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, token) })
					}
				}
				c.end()
				roles := make(map[string]int)
				for _, v := range all {
					require.Equal(t, want.String(), v.whole())
					roles[v.role()]++
				}
				require.Equal(t, map[string]int{"leader": 1, "joined": 199}, roles)
			})
		}
	})
}

func TestRoles(t *testing.T) {
	for _, shown := range []bool{true, false} {
		t.Run(fmt.Sprintf("shown=%v", shown), func(t *testing.T) {
			var p setup
			want := func(role string) string { return role }
			if !shown {
				p.guard = append(p.guard, middleware.WithoutRoleHeader())
				want = func(string) string { return "" }
			}
			s := serve(t, p)
			leader, c := s.lead(s.get("leader"))
			queued := s.send(s.request(http.MethodGet, "/other", ""))
			s.queued(1)
			joined := s.join(1)[0]
			c.write("a")
			c.end()
			assert.Equal(t, want("leader"), leader.role())
			assert.Equal(t, want("joined"), joined.role())
			c = s.next()
			c.write("b")
			c.end()
			assert.Equal(t, want("queued"), queued.role())
			assert.Equal(t, []string{"a", "a", "b"}, readAll([]*visitor{leader, joined, queued}))
		})
	}
}

func TestNewPanicsOnWhatIsWrong(t *testing.T) {
	tests := []struct {
		name  string
		locks *redislock.Locker
		opts  []join.Option
		want  []string
	}{
		{"a Locker", new(redislock.Locker), nil, []string{"must be nil"}},
		{"nil option", nil, []join.Option{nil}, []string{"option 1 of 1 is nil"}},
		{"kept", nil, []join.Option{join.WithKept(16<<10 - 1)}, []string{"WithKept: 16383 bytes"}},
		{"all at once", new(redislock.Locker), []join.Option{join.WithPrivate(), nil, join.WithKept(-1)}, []string{"must be nil", "option 2 of 3 is nil", "WithKept: -1 bytes"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				err, ok := recover().(error)
				require.True(t, ok, "no panic with an error")
				for _, want := range tt.want {
					assert.ErrorContains(t, err, want)
				}
			}()
			join.New(tt.locks, tt.opts...)
		})
	}
}
