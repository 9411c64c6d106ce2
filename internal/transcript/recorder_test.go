package transcript_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/transcript"
)

// A recording is a handler's ResponseWriter, and what comes of it.
type recording struct {
	transcript *transcript.Transcript
	recorder   *transcript.Recorder
	w          http.ResponseWriter
	leave      context.CancelCauseFunc // the client
	end        context.CancelCauseFunc // the run
	refused    []error
}

var errRefused = errors.New("refused")

// record accepts what has no header X-Private.
func record(t *testing.T, w http.ResponseWriter) *recording {
	r := &recording{transcript: transcript.New(plenty)}
	client, leave := context.WithCancelCause(t.Context())
	run, end := context.WithCancelCause(t.Context())
	r.leave, r.end = leave, end
	r.recorder, r.w = transcript.NewRecorder(w, transcript.Recording{
		Transcript: r.transcript,
		Reader:     newReader(t, r.transcript),
		Client:     client,
		Unsent:     leave,
		Run:        run,
		Accept: func(h transcript.Head, header http.Header) error {
			assert.Equal(t, header["X-Private"], h.Header.Values("X-Private"))
			if len(h.Header.Values("X-Private")) > 0 {
				return errRefused
			}
			return nil
		},
		Refused: func(err error) {
			r.refused = append(r.refused, err)
			r.transcript.Break(err)
		},
	})
	return r
}

// copyTo is what another client gets whose header is h before.
func (r *recording) copyTo(t *testing.T, h http.Header) (*httptest.ResponseRecorder, error) {
	w := httptest.NewRecorder()
	for name, lines := range h {
		w.Header()[name] = lines
	}
	reader := newReader(t, r.transcript)
	head, err := reader.Head(t.Context())
	if err != nil {
		return w, err
	}
	head.Header.Apply(w.Header())
	w.WriteHeader(head.Status)
	return w, transcript.Send(t.Context(), w, reader)
}

func TestRecorderKeepsTheResponse(t *testing.T) {
	own := httptest.NewRecorder()
	own.Header().Set("X-Request-Id", "1")
	own.Header().Set("Vary", "Origin")
	own.Header().Set("X-Outer", "outer")
	r := record(t, own)
	h := r.w.Header()
	h.Set("X-Handler", "a")
	h.Add("Vary", "Accept")
	h.Del("X-Outer")
	h.Set("Connection", "close")
	h.Set("Trailer", "X-Sum")
	r.w.WriteHeader(http.StatusCreated)
	r.w.WriteHeader(http.StatusTeapot)
	h.Set("X-Handler", "too late")
	n, err := io.WriteString(r.w, "some ")
	require.NoError(t, err)
	require.Equal(t, 5, n)
	require.NoError(t, http.NewResponseController(r.w).Flush())
	m, err := r.w.(io.StringWriter).WriteString("text")
	require.NoError(t, err)
	require.Equal(t, 4, m)
	h.Set("X-Sum", "9")
	h.Set(http.TrailerPrefix+"X-Also", "b")
	require.NoError(t, r.recorder.Finish(nil))
	require.Empty(t, r.refused)

	other, err := r.copyTo(t, http.Header{"X-Request-Id": {"2"}, "Vary": {"Cookie"}, "X-Outer": {"outer"}})
	require.NoError(t, err)
	want := http.Header{"X-Handler": {"a"}, "Vary": {"Origin", "Accept"}, "X-Request-Id": {"1"}, "Connection": {"close"}, "Trailer": {"X-Sum"}}
	assert.Equal(t, want, own.Result().Header)
	want = http.Header{"X-Handler": {"a"}, "Vary": {"Cookie", "Accept"}, "X-Request-Id": {"2"}, "Trailer": {"X-Sum"}}
	assert.Equal(t, want, other.Result().Header)
	for _, w := range []*httptest.ResponseRecorder{own, other} {
		assert.Equal(t, http.StatusCreated, w.Code)
		assert.Equal(t, "some text", w.Body.String())
		assert.True(t, w.Flushed)
		assert.Equal(t, http.Header{"X-Sum": {"9"}, "X-Also": {"b"}}, w.Result().Trailer)
	}
}

// What others may not have goes straight to the handler's own client.
func TestRecorderPassesOnWhatIsRefused(t *testing.T) {
	own := httptest.NewRecorder()
	r := record(t, own)
	r.w.Header().Set("X-Private", "yes")
	_, err := io.WriteString(r.w, "some ")
	require.NoError(t, err)
	require.Equal(t, []error{errRefused}, r.refused)
	require.Equal(t, "some ", own.Body.String(), "at once")
	require.NoError(t, http.NewResponseController(r.w).Flush())
	_, err = io.Copy(r.w, strings.NewReader("text"))
	require.NoError(t, err)
	require.NoError(t, r.recorder.Finish(nil))
	assert.Equal(t, "some text", own.Body.String())
	assert.Equal(t, "yes", own.Result().Header.Get("X-Private"))
	_, err = r.copyTo(t, nil)
	require.Equal(t, errRefused, err)
}

func TestRecorderOfNothing(t *testing.T) {
	tests := []struct {
		name  string
		cause error
	}{{"complete", nil}, {"broken off", errCut}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			own := httptest.NewRecorder()
			r := record(t, own)
			r.w.Header().Set("X-Handler", "a")
			require.NoError(t, r.recorder.Finish(tt.cause))
			require.Equal(t, "a", own.Header().Get("X-Handler"), "for who writes further out")
			other, err := r.copyTo(t, nil)
			require.Equal(t, tt.cause, err)
			if tt.cause == nil {
				require.Equal(t, http.StatusOK, other.Code)
				require.Equal(t, http.Header{"X-Handler": {"a"}}, other.Result().Header)
			}
		})
	}
}

func TestRecorderStatusWithoutABody(t *testing.T) {
	for _, status := range []int{http.StatusNoContent, http.StatusNotModified} {
		own := httptest.NewRecorder()
		r := record(t, own)
		r.w.WriteHeader(status)
		n, err := io.WriteString(r.w, "body")
		require.ErrorIs(t, err, http.ErrBodyNotAllowed)
		require.Zero(t, n)
		require.NoError(t, r.recorder.Finish(nil))
		other, err := r.copyTo(t, nil)
		require.NoError(t, err)
		require.Equal(t, status, other.Code)
		require.Empty(t, other.Body)
	}
}

// A handler whose own client has gone writes for the others, until nobody is left.
func TestRecorderWithoutItsClient(t *testing.T) {
	own := httptest.NewRecorder()
	r := record(t, own)
	r.leave(errCut)
	_, err := io.WriteString(r.w, "text")
	require.NoError(t, err)
	r.end(errRefused)
	_, err = io.WriteString(r.w, "more")
	require.Equal(t, errRefused, err)
	require.Equal(t, errRefused, http.NewResponseController(r.w).Flush())
	require.Equal(t, errCut, r.recorder.Finish(nil))
	other, err := r.copyTo(t, nil)
	require.NoError(t, err)
	require.Equal(t, "text", other.Body.String())
}

type failing struct{ *httptest.ResponseRecorder }

func (failing) Write([]byte) (int, error) { panic("broken") }

// What panics while the response is sent does so where that can be recovered.
func TestRecorderPanicsWhereItsCallerIs(t *testing.T) {
	r := record(t, failing{httptest.NewRecorder()})
	_, err := io.WriteString(r.w, "text")
	require.NoError(t, err)
	require.PanicsWithValue(t, "broken", func() { _ = r.recorder.Finish(nil) })
}

// The optional interfaces, all of which a ResponseWriter may have.
type (
	bare      struct{ http.ResponseWriter }
	flushes   struct{}
	hijacks   struct{}
	readsFrom struct{}
	pushes    struct{}
)

func (bare) Header() http.Header                             { return http.Header{} }
func (bare) Write(p []byte) (int, error)                     { return len(p), nil }
func (bare) WriteHeader(int)                                 {}
func (flushes) Flush()                                       {}
func (hijacks) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, errCut }
func (readsFrom) ReadFrom(r io.Reader) (int64, error)        { return io.Copy(io.Discard, r) }
func (pushes) Push(string, *http.PushOptions) error          { return errCut }

type unwraps struct {
	bare
	inner http.ResponseWriter
}

func (u unwraps) Unwrap() http.ResponseWriter { return u.inner }

// The handler is offered what there is, no more and no less.
func TestRecorderOffersWhatThereIs(t *testing.T) {
	all := struct {
		bare
		flushes
		hijacks
		readsFrom
		pushes
	}{}
	tests := []struct {
		name string
		w    http.ResponseWriter
		has  string // Flush, Hijack, ReadFrom, Push
	}{
		{"none", bare{}, "...."},
		{"f", struct {
			bare
			flushes
		}{}, "F..."},
		{"h", struct {
			bare
			hijacks
		}{}, ".H.."},
		{"r", struct {
			bare
			readsFrom
		}{}, "..R."},
		{"p", struct {
			bare
			pushes
		}{}, "...P"},
		{"fh", struct {
			bare
			flushes
			hijacks
		}{}, "FH.."},
		{"fr", struct {
			bare
			flushes
			readsFrom
		}{}, "F.R."},
		{"fp", struct {
			bare
			flushes
			pushes
		}{}, "F..P"},
		{"hr", struct {
			bare
			hijacks
			readsFrom
		}{}, ".HR."},
		{"hp", struct {
			bare
			hijacks
			pushes
		}{}, ".H.P"},
		{"rp", struct {
			bare
			readsFrom
			pushes
		}{}, "..RP"},
		{"fhr", struct {
			bare
			flushes
			hijacks
			readsFrom
		}{}, "FHR."},
		{"fhp", struct {
			bare
			flushes
			hijacks
			pushes
		}{}, "FH.P"},
		{"frp", struct {
			bare
			flushes
			readsFrom
			pushes
		}{}, "F.RP"},
		{"hrp", struct {
			bare
			hijacks
			readsFrom
			pushes
		}{}, ".HRP"},
		{"all", all, "FHRP"},
		{"below only", unwraps{inner: all}, "...."},
	}
	has := func(w http.ResponseWriter) string {
		mark := func(ok bool, letter string) string {
			if ok {
				return letter
			}
			return "."
		}
		_, f := w.(http.Flusher)
		_, h := w.(http.Hijacker)
		_, r := w.(io.ReaderFrom)
		_, p := w.(http.Pusher)
		return mark(f, "F") + mark(h, "H") + mark(r, "R") + mark(p, "P")
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.has, has(tt.w))
			r := record(t, tt.w)
			require.Equal(t, tt.has, has(r.w))
			out := http.NewResponseController(r.w)
			wrapped := tt.name == "below only"
			require.Equal(t, !wrapped && tt.has[0] == '.', errors.Is(out.Flush(), http.ErrNotSupported))
			require.ErrorIs(t, out.SetWriteDeadline(time.Time{}), http.ErrNotSupported)
			require.ErrorIs(t, out.EnableFullDuplex(), http.ErrNotSupported)
			_, _, err := out.Hijack()
			require.Equal(t, !wrapped && tt.has[1] == '.', errors.Is(err, http.ErrNotSupported))
			require.NoError(t, r.recorder.Finish(nil))
		})
	}
}

// What an http.ResponseController finds further down is recorded as well.
func TestRecorderIsNotBypassed(t *testing.T) {
	own := httptest.NewRecorder()
	r := record(t, unwraps{bare{own}, own})
	below := r.w.(interface{ Unwrap() http.ResponseWriter }).Unwrap()
	_, err := below.Write([]byte("text"))
	require.NoError(t, err)
	require.NoError(t, http.NewResponseController(r.w).Flush())
	require.NoError(t, r.recorder.Finish(nil))
	other, err := r.copyTo(t, nil)
	require.NoError(t, err)
	require.Equal(t, "text", other.Body.String())
	require.True(t, other.Flushed)
}
