package lock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

// What an operator must act on is a warning, what ends it is information,
// what each request does is for debugging.
var logged = []struct {
	event lock.Event
	line  string
}{
	{lock.Acquired{Key: "k", Fence: 7, Wait: time.Second}, `level=DEBUG msg="reqlock: acquired" key=k fence=7 wait=1s fallback=false`},
	{lock.Denied{Key: "k", Reason: "busy", Wait: time.Second, Err: lock.ErrBusy}, `level=DEBUG msg="reqlock: denied" key=k reason=busy wait=1s err="lock: held by somebody else"`},
	{lock.Denied{Reason: "no_key"}, `level=DEBUG msg="reqlock: denied" key="" reason=no_key wait=0s err=<nil>`},
	{lock.Denied{Reason: "key_failed", Err: lock.ErrLost}, `level=WARN msg="reqlock: denied" key="" reason=key_failed wait=0s err="lock: lease lost"`},
	{lock.Denied{Key: "k", Reason: "max_hold", Err: lock.ErrMaxHold}, `level=DEBUG msg="reqlock: denied" key=k reason=max_hold wait=0s err="lock: held for too long"`},
	{lock.Abandoned{Key: "k", Wait: time.Second}, `level=DEBUG msg="reqlock: the client left while waiting" key=k wait=1s`},
	{lock.Overran{Key: "k", Fence: 7, Hold: time.Minute}, `level=WARN msg="reqlock: the handler runs for too long and is asked to stop" key=k fence=7 hold=1m0s`},
	{lock.FallbackBegan{Route: "POST /", Fallback: "lock.Open", Err: lock.ErrUnavailable}, `level=WARN msg="reqlock: requests run with the fallback" route="POST /" fallback=lock.Open err="lock: backend unavailable"`},
	{lock.FallbackEnded{Route: "POST /", Fallback: "lock.Open", Requests: 3, After: time.Minute}, `level=INFO msg="reqlock: requests do without the fallback again" route="POST /" fallback=lock.Open requests=3 after=1m0s`},
	{lock.KeptBack{Backend: "redis", For: time.Second}, `level=WARN msg="reqlock: backend restarted, free keys are kept back" backend=redis for=1s`},
	{lock.Released{Key: "k", Fence: 7, Hold: time.Minute}, `level=DEBUG msg="reqlock: released" key=k fence=7 hold=1m0s err=<nil>`},
	{lock.Lost{Key: "a b", Fence: 7, Err: lock.ErrStolen}, `level=WARN msg="reqlock: lease lost" key="a b" fence=7 err="lock: lease lost: the key is in another's hands"`},
	{lock.BackendFailed{Err: lock.ErrUnavailable}, `level=WARN msg="reqlock: backend unavailable" err="lock: backend unavailable"`},
	{lock.BackendRecovered{Backend: "redis", After: time.Minute}, `level=INFO msg="reqlock: backend available again" backend=redis after=1m0s`},
	{lock.Degraded{Err: errors.New("SUBSCRIBE refused")}, `level=WARN msg="reqlock: backend restricted" err="SUBSCRIBE refused"`},
}

func TestLogTo(t *testing.T) {
	var out bytes.Buffer
	observe := lock.LogTo(textLogger(&out))
	for _, tt := range logged {
		out.Reset()
		observe(t.Context(), tt.event)
		require.Equal(t, tt.line+"\n", out.String())
	}
}

// The default logger is looked up when something is logged: programs often set
// it after they have built their Lockers.
func TestLogToDefault(t *testing.T) {
	observe := lock.LogTo(nil)
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	var out bytes.Buffer
	slog.SetDefault(textLogger(&out))
	observe(t.Context(), lock.BackendRecovered{After: time.Second})
	require.Contains(t, out.String(), "available again")
}

type requestID struct{}

// A handler finds in the context what belongs to the request.
func TestLogToPassesTheContext(t *testing.T) {
	seen := make(map[any]int)
	observe := lock.LogTo(slog.New(contextHandler{slog.NewTextHandler(new(bytes.Buffer), &slog.HandlerOptions{Level: slog.LevelDebug}), seen}))
	ctx := context.WithValue(t.Context(), requestID{}, "id")
	for _, tt := range logged {
		observe(ctx, tt.event)
	}
	require.Equal(t, map[any]int{"id": len(logged)}, seen)
}

type contextHandler struct {
	slog.Handler
	seen map[any]int
}

func (h contextHandler) Handle(ctx context.Context, r slog.Record) error {
	h.seen[ctx.Value(requestID{})]++
	return h.Handler.Handle(ctx, r)
}

func textLogger(out *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}
