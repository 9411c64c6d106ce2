package join_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reqlock/reqlock/middleware/join"
)

// Nothing in the request says that the response is a stream.
func TestH29EachTokenAsItIsWritten(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		s := serve(t, p)
		leader, c := s.lead(s.get("leader"))
		all := append(s.join(2), leader)
		c.do(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush() // the head alone
		})
		for _, v := range all {
			assert.Equal(t, "text/event-stream", v.head().Header.Get("Content-Type"))
		}
		var so strings.Builder
		for i := range 5 {
			token := fmt.Sprintf("data: %d\n\n", i)
			so.WriteString(token)
			c.write(token)
			for _, v := range all {
				v.reads(token)
			}
			late := s.join(1)[0] // has all so far, at once
			late.reads(so.String())
			all = append(all, late)
		}
		c.end()
		for _, rest := range readAll(all) {
			assert.Empty(t, rest)
		}
	})
}

func TestH30LongStream(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {

		p.sharer = append(p.sharer, join.WithKept(kept))
		s := serve(t, p)
		leader, c := s.lead(s.get("leader"))
		all := append(s.join(2), leader)
		stream := func(bytes int) {
			for n := range bytes / piece {
				c.write(text(n))
				for _, v := range all {
					v.reads(text(n))
				}
			}
		}
		stream(kept)
		early := s.join(1)[0] // still has the beginning
		all = append(all, early)
		early.reads(text(0) + text(1) + text(2) + text(3))
		stream(1 << 20)
		before := heap()
		stream(8 << 20)
		assert.Less(t, heap(), before+1<<20, "memory grows with the stream")

		late := s.send(s.get("late")) // runs for itself
		s.queued(1)
		later := s.send(s.get("later")) // and shares that
		s.watched(2)
		c.write("end")
		c.end()
		for _, rest := range readAll(all) {
			assert.Equal(t, "end", rest)
		}
		c = s.next()
		c.write("anew")
		c.end()
		assert.Equal(t, []string{"anew", "anew"}, readAll([]*visitor{late, later}))
		assert.Equal(t, []string{"queued", "joined"}, []string{late.role(), later.role()})
	})
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
