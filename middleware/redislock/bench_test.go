package redislock_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware/lock"
)

// BenchmarkUncontended acquires and releases a free key again and again, here,
// in a guard, and with redsync alone, which gives no fence and renews nothing.
// Besides time and allocations it reports the commands that a client sent for
// each pair.
func BenchmarkUncontended(b *testing.B) {
	b.Run("redislock", func(b *testing.B) {
		server := redistest.Start(b)
		l := open(b, server.Client())
		measure(b, server, []string{"evalsha", "eval"}, func() {
			lease, err := l.Acquire(b.Context(), "key", lock.Options{Wait: time.Second})
			if err != nil {
				b.Fatal(err)
			}
			if err := lease.Release(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("guard", func(b *testing.B) { // a whole request, but for its handler
		server := redistest.Start(b)
		guard := httplock.New(open(b, server.Client()), keyfuncs.Header("X-User-ID"))
		handler := guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("X-User-ID", "key")
		w := writer{httptest.NewRecorder()}
		measure(b, server, []string{"evalsha", "eval"}, func() { handler.ServeHTTP(w, r) })
	})
	b.Run("redsync", func(b *testing.B) {
		server := redistest.Start(b)
		rs := redsync.New(goredis.NewPool(server.Client()))
		measure(b, server, []string{"set", "evalsha", "eval"}, func() {
			m := rs.NewMutex("key")
			if err := m.LockContext(b.Context()); err != nil {
				b.Fatal(err)
			}
			if ok, err := m.UnlockContext(b.Context()); !ok {
				b.Fatal(err)
			}
		})
	})
}

// A writer offers what net/http's own does, which the guard has a short way
// for.
type writer struct{ *httptest.ResponseRecorder }

func (writer) FlushError() error                            { return nil }
func (writer) CloseNotify() <-chan bool                     { return nil }
func (writer) SetReadDeadline(time.Time) error              { return nil }
func (writer) SetWriteDeadline(time.Time) error             { return nil }
func (writer) EnableFullDuplex() error                      { return nil }
func (writer) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrNotSupported }
func (w writer) ReadFrom(src io.Reader) (int64, error)      { return io.Copy(w.ResponseRecorder, src) }

// measure runs pair b.N times and reports what it costs. commands are those
// that a client sends for it, and that no script calls.
func measure(b *testing.B, server *redistest.Server, commands []string, pair func()) {
	sent := func() (n int64) {
		for _, calls := range server.Commands(commands...) {
			n += calls
		}
		return n
	}
	pair() // connections are open and scripts known from here on
	before := sent()
	b.ReportAllocs()
	for b.Loop() {
		pair()
	}
	b.ReportMetric(float64(sent()-before)/float64(b.N), "commands/op")
}

func TestCommandsOfAPair(t *testing.T) {
	server := redistest.Start(t)
	l := open(t, server.Client())
	pair := func() {
		lease, err := l.Acquire(t.Context(), "key", lock.Options{})
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
	}
	pair()
	before := server.Commands("evalsha", "eval")
	monitor := server.Monitor(t)
	pair()
	require.Equal(t, []string{"evalsha", "evalsha"}, monitor.Stop().TopLevel().Names())
	after := server.Commands("evalsha", "eval")
	require.EqualValues(t, 2, after["evalsha"]-before["evalsha"])
	require.EqualValues(t, 0, after["eval"]-before["eval"])
}
