package keyfuncs_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/keyfuncs"
)

var userAndSession = keyfuncs.Join(keyfuncs.JSON("user"), keyfuncs.JSON("metadata.session_id"))

const chat = `{"user":"u1","metadata":{"session_id":"s1"}}`

// source is a body that knows how it was used.
type source struct {
	io.Reader
	reads  int
	closed bool
}

func (s *source) Read(p []byte) (int, error) {
	if s.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	s.reads++
	return s.Reader.Read(p)
}

func (s *source) Close() error { s.closed = true; return nil }

// streamed is a request with a body of unknown length.
func streamed(body io.Reader) (*http.Request, *source) {
	src := &source{Reader: body}
	r := httptest.NewRequest(http.MethodPost, "/", src)
	r.ContentLength = -1
	return r, src
}

// sized returns a JSON object of n bytes.
func sized(n int) string {
	const head, tail = `{"user":"u1","pad":"`, `"}`
	return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
}

func TestBody_WholeForTheHandler(t *testing.T) {
	for name, read := range map[string]func(io.Reader) io.Reader{
		"at once":         func(r io.Reader) io.Reader { return r },
		"byte by byte":    iotest.OneByteReader,
		"in halves":       iotest.HalfReader,
		"EOF with data":   iotest.DataErrReader,
		"one byte, early": func(r io.Reader) io.Reader { return iotest.DataErrReader(iotest.OneByteReader(r)) },
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := streamed(read(strings.NewReader(chat)))
			is("u1:s1").check(t, userAndSession, r)
			require.NoError(t, iotest.TestReader(r.Body, []byte(chat)))
		})
	}
}

func TestBody_ReadOnceForSeveralFuncs(t *testing.T) {
	r, src := streamed(strings.NewReader(chat))
	is("u1").check(t, keyfuncs.JSON("user"), r)
	body, reads := r.Body, src.reads
	is("u1:s1").check(t, userAndSession, r)
	assert.Same(t, body, r.Body)
	assert.Equal(t, reads, src.reads)

	// Also after the handler has begun to read, which then goes on where it was.
	_, err := io.ReadFull(r.Body, make([]byte, 10))
	require.NoError(t, err)
	is("u1:s1").check(t, userAndSession, r)
	rest, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	assert.Equal(t, chat[10:], string(rest))
}

func TestBody_None(t *testing.T) {
	for name, body := range map[string]io.ReadCloser{"nil": nil, "NoBody": http.NoBody} {
		t.Run(name, func(t *testing.T) {
			r := request("Content-Type", urlencoded)
			r.Body = body
			for _, f := range []keyfuncs.Func{keyfuncs.JSON("user"), keyfuncs.FormValue("user")} {
				_, err := f(r)
				assert.ErrorIs(t, err, keyfuncs.ErrMissing)
			}
			assert.Equal(t, body, r.Body)
		})
	}
	r, _ := streamed(strings.NewReader("")) // chunked, with nothing in it
	missing(`keyfuncs: JSON "user": missing`).check(t, keyfuncs.JSON("user"), r)
}

func assertTooLarge(t *testing.T, err error, limit int64) {
	t.Helper()
	tooLarge, ok := errors.AsType[*http.MaxBytesError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, limit, tooLarge.Limit)
	assert.False(t, isClientError(err))
	assert.EqualError(t, err, "keyfuncs: reading the request body: http: request body too large")
}

func TestBody_AtTheLimit(t *testing.T) {
	r, _ := streamed(strings.NewReader(sized(keyfuncs.MaxBody)))
	is("u1").check(t, keyfuncs.JSON("user"), r)
}

func TestBody_BeyondTheLimitStaysWhole(t *testing.T) {
	for _, size := range []int{keyfuncs.MaxBody + 1, 3 * keyfuncs.MaxBody} {
		body := sized(size)
		r, src := streamed(strings.NewReader(body))
		for range 2 {
			_, err := keyfuncs.FirstOf(keyfuncs.JSON("user"), keyfuncs.Const("fallback"))(r)
			assertTooLarge(t, err, keyfuncs.MaxBody)
		}
		got, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		assert.True(t, body == string(got))
		require.NoError(t, r.Body.Close())
		assert.True(t, src.closed)
	}

	r := form("POST", urlencoded, "order=o1&pad="+strings.Repeat("x", keyfuncs.MaxBody))
	r.ContentLength = -1
	_, err := keyfuncs.FormValue("order")(r)
	assertTooLarge(t, err, keyfuncs.MaxBody)
}

func TestBody_DeclaredTooLargeIsNotTouched(t *testing.T) {
	r, src := streamed(strings.NewReader(chat))
	r.ContentLength = keyfuncs.MaxBody + 1
	before := r.Body
	_, err := keyfuncs.JSON("user")(r)
	assertTooLarge(t, err, keyfuncs.MaxBody)
	assert.Same(t, before, r.Body)
	assert.Zero(t, src.reads)
}

func TestBody_InsideMaxBytesReader(t *testing.T) {
	r, _ := streamed(strings.NewReader(chat))
	r.Body = http.MaxBytesReader(httptest.NewRecorder(), r.Body, 10)
	_, err := keyfuncs.JSON("user")(r)
	assertTooLarge(t, err, 10)

	got, err := io.ReadAll(r.Body)
	assert.Equal(t, chat[:10], string(got))
	_, ok := errors.AsType[*http.MaxBytesError](err)
	assert.True(t, ok)
}

func TestBody_BreaksInTheMiddle(t *testing.T) {
	broken := errors.New("connection reset by peer")
	r, src := streamed(io.MultiReader(strings.NewReader(chat[:20]), iotest.ErrReader(broken)))
	for range 2 {
		key, err := userAndSession(r)
		assert.Empty(t, key)
		require.ErrorIs(t, err, broken)
		require.ErrorIs(t, err, keyfuncs.ErrMalformed, "it is the client's doing")
		assert.NotContains(t, err.Error(), broken.Error())
	}
	src.Reader = strings.NewReader("more, which nobody asks for")
	for range 2 {
		got, err := io.ReadAll(r.Body)
		assert.Equal(t, broken, err)
		assert.Contains(t, []string{chat[:20], ""}, string(got))
	}
}

func TestBody_Close(t *testing.T) {
	r, src := streamed(strings.NewReader(chat))
	is("u1:s1").check(t, userAndSession, r)
	require.NoError(t, r.Body.Close())
	assert.True(t, src.closed)
	_, err := r.Body.Read(make([]byte, 1))
	assert.ErrorIs(t, err, http.ErrBodyReadAfterClose)
	is("u1:s1").check(t, userAndSession, r)
}

// As a proxy's transport does when the client goes away.
func TestBody_CloseWhileReading(t *testing.T) {
	body, w := io.Pipe()
	r := httptest.NewRequest(http.MethodPost, "/", body)
	go func() { // ends when the pipe is closed
		_, _ = io.WriteString(w, sized(2*keyfuncs.MaxBody))
	}()
	_, err := keyfuncs.JSON("user")(r)
	assertTooLarge(t, err, keyfuncs.MaxBody)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(io.Discard, r.Body) })
	wg.Go(func() { _ = r.Body.Close() })
	wg.Wait()
}

func BenchmarkJSON(b *testing.B) {
	body := []byte(sized(8 << 10))
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	f := keyfuncs.JSON("user")
	for b.Loop() {
		r := &http.Request{Method: http.MethodPost, Body: io.NopCloser(bytes.NewReader(body))}
		if _, err := f(r); err != nil {
			b.Fatal(err)
		}
	}
}
