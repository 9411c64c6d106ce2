package transcript_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/transcript"
)

const plenty = 1 << 20

var errCut = errors.New("cut")

// A copied response is what a reader got: the body, the offsets at which it was told to
// flush, and how it ended.
type copied struct {
	body    []byte
	flushes []int
	err     error
}

func read(ctx context.Context, r *transcript.Reader) (c copied) {
	for {
		p, flush, err := r.Next(ctx)
		if err != nil {
			c.err = err
			return c
		}
		c.body = append(c.body, p...)
		if flush {
			c.flushes = append(c.flushes, len(c.body))
		}
	}
}

func newReader(t *testing.T, tr *transcript.Transcript) *transcript.Reader {
	t.Helper()
	r, err := tr.Reader(func(error) {})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

func write(t *testing.T, tr *transcript.Transcript, p []byte) {
	t.Helper()
	n, err := tr.Write(p)
	require.NoError(t, err)
	require.Equal(t, len(p), n)
}

// Who comes at any time gets the same, byte for byte and flush for flush.
func TestReadersGetTheSame(t *testing.T) {
	for _, cause := range []error{nil, errCut} {
		tr := transcript.New(plenty)
		var all sync.WaitGroup
		follow := func(want *copied) {
			r := newReader(t, tr)
			all.Go(func() {
				defer r.Close()
				head, err := r.Head(t.Context())
				assert.NoError(t, err)
				assert.Equal(t, http.StatusAccepted, head.Status)
				assert.Equal(t, *want, read(t.Context(), r))
			})
		}
		want := copied{err: io.EOF}
		if cause != nil {
			want.err = cause
		}
		follow(&want)
		tr.Commit(transcript.Head{Status: http.StatusAccepted})
		tr.Commit(transcript.Head{Status: http.StatusTeapot})
		tr.Flush()
		want.flushes = append(want.flushes, 0)
		for i := range 300 {
			p := bytes.Repeat([]byte{byte(i)}, rand.IntN(200))
			write(t, tr, p)
			want.body = append(want.body, p...)
			if rand.IntN(2) == 0 && len(p) > 0 {
				tr.Flush()
				tr.Flush()
				want.flushes = append(want.flushes, len(want.body))
			}
			clear(p) // it is the writer's
			if i%50 == 0 {
				follow(&want)
			}
		}
		if cause != nil {
			tr.Break(cause)
		} else {
			tr.Complete(nil)
		}
		tr.Break(errors.New("later"))
		tr.Complete(nil)
		write(t, tr, []byte("too late"))
		follow(&want)
		all.Wait()
	}
}

// A token is there as soon as it was written, and flushed as soon as it was.
func TestReadersAreLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := transcript.New(plenty)
		r := newReader(t, tr)
		got := make(chan string, 1)
		next := func() {
			p, flush, err := r.Next(t.Context())
			assert.NoError(t, err)
			if flush {
				p = append(p[:len(p):len(p)], '!')
			}
			got <- string(p)
		}
		steps := []struct {
			do   func()
			want string
		}{
			{func() { write(t, tr, []byte("a")) }, "a"},
			{tr.Flush, "!"},
			{func() { write(t, tr, []byte("bc")) }, "bc"},
			{func() { write(t, tr, []byte("d")) }, "d"},
		}
		for _, s := range steps {
			go next()
			synctest.Wait()
			require.Empty(t, got)
			s.do()
			synctest.Wait()
			require.Equal(t, s.want, <-got)
		}
	})
}

// A context that ends, and a response that does, end a wait.
func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := transcript.New(plenty)
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 2)
		for range cap(ended) {
			r := newReader(t, tr)
			go func() {
				_, err := r.Head(ctx)
				ended <- err
			}()
		}
		synctest.Wait()
		cancel(errCut)
		require.Equal(t, errCut, <-ended)
		require.Equal(t, errCut, <-ended)

		_, _, err := newReader(t, tr).Next(ctx)
		require.Equal(t, errCut, err)
		tr.Complete(nil)
		_, err = newReader(t, tr).Head(t.Context())
		require.Equal(t, io.EOF, err)
		_, _, err = newReader(t, tr).Next(t.Context())
		require.Equal(t, io.EOF, err)
	})
}

// What is longer than is kept goes on for who keeps up, ends for who does not, and is
// not begun any more.
func TestLongerThanIsKept(t *testing.T) {
	const keep = 64 << 10
	tr := transcript.New(keep)
	slow, quick := newReader(t, tr), newReader(t, tr)
	chunk := bytes.Repeat([]byte("x"), 1000)
	for written := 0; written < 10*keep; written += len(chunk) {
		write(t, tr, chunk)
		for n := 0; n < len(chunk); {
			p, _, err := quick.Next(t.Context())
			require.NoError(t, err)
			n += len(p)
		}
		if written+len(chunk) <= keep {
			newReader(t, tr)
		}
	}
	_, err := tr.Reader(func(error) {})
	require.Equal(t, transcript.ErrTooLate, err)
	_, _, err = slow.Next(t.Context())
	require.Equal(t, transcript.ErrBehind, err)
	tr.Complete(nil)
	_, _, err = quick.Next(t.Context())
	require.Equal(t, io.EOF, err)
}

// Whoever is there gets all of a write that is larger than what is kept.
func TestAWriteLargerThanIsKept(t *testing.T) {
	tr := transcript.New(100)
	r := newReader(t, tr)
	large := bytes.Repeat([]byte("0123456789"), 100_000)
	write(t, tr, []byte("head"))
	p, _, err := r.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, "head", string(p))
	go func() {
		_, _ = tr.Write(large)
		tr.Complete(nil)
	}()
	require.Equal(t, copied{body: large, err: io.EOF}, read(t.Context(), r))
}

// The fastest reader sets the pace of who writes, and others nothing; who is too slow is
// told, once.
func TestTheFastestSetsThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keep, size = 256 << 10, 1 << 10
		tr := transcript.New(keep)
		behind := make(chan error, 2)
		slow, err := tr.Reader(func(err error) { behind <- err })
		require.NoError(t, err)
		fast := newReader(t, tr)
		written := 0
		writeAll := func() {
			for range 2 * keep / size {
				_, _ = tr.Write(make([]byte, size))
				written += size
			}
		}
		go writeAll()
		synctest.Wait()
		require.InDelta(t, 64<<10, written, 2*size)
		require.Empty(t, behind)
		for n := 0; n < 2*keep; {
			p, _, err := fast.Next(t.Context())
			require.NoError(t, err)
			n += len(p)
			synctest.Wait()
			require.LessOrEqual(t, written-n, 64<<10+size)
		}
		require.Equal(t, 2*keep, written)
		require.Equal(t, transcript.ErrBehind, <-behind)
		_, _, err = slow.Next(t.Context())
		require.Equal(t, transcript.ErrBehind, err)

		// Without the fastest it is the next one; without any there is none.
		next, err := tr.Reader(func(error) {})
		require.Equal(t, transcript.ErrTooLate, err)
		require.Nil(t, next)
		written = 0
		go writeAll()
		synctest.Wait()
		require.Less(t, written, 2*keep)
		fast.Close()
		synctest.Wait()
		require.Equal(t, 2*keep, written)
		require.Empty(t, behind)
	})
}

// The memory that it takes does not grow with the response.
func TestMemoryIsBounded(t *testing.T) {
	tr := transcript.New(64 << 10)
	chunk := bytes.Repeat([]byte("x"), 100)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for range 1000 {
		write(t, tr, chunk)
		tr.Flush()
	}
	before := heap()
	for range 100_000 {
		write(t, tr, chunk)
		tr.Flush()
	}
	require.Less(t, heap()-before, int64(256<<10))
	runtime.KeepAlive(tr)
}

// Any writes, flushes and speeds of reading: who is not cut off has all of it.
func FuzzReaders(f *testing.F) {
	f.Add([]byte("abc\x00def\x01"), uint16(3))
	f.Add(bytes.Repeat([]byte{200, 0, 7}, 50), uint16(100))
	f.Fuzz(func(t *testing.T, script []byte, keep uint16) {
		tr := transcript.New(int64(keep))
		r := newReader(t, tr)
		pace := newReader(t, tr)
		go func() { _ = read(t.Context(), pace) }()
		var want, got copied
		take := func() bool {
			p, flush, err := r.Next(t.Context())
			got.err = err
			got.body = append(got.body, p...)
			if flush {
				got.flushes = append(got.flushes, len(got.body))
			}
			return err == nil
		}
		pending := false // something to take, for certain
		for i, b := range script {
			switch b % 4 {
			case 0:
				p := bytes.Repeat([]byte{byte(i)}, int(b)*40)
				_, _ = tr.Write(p)
				want.body = append(want.body, p...)
				pending = pending || len(p) > 0
			case 1:
				tr.Flush()
				if n := len(want.flushes); n == 0 || want.flushes[n-1] < len(want.body) {
					want.flushes = append(want.flushes, len(want.body))
					pending = true
				}
			default:
				if pending && !take() {
					require.Equal(t, transcript.ErrBehind, got.err)
					return
				}
				pending = len(got.body) < len(want.body) || len(got.flushes) < len(want.flushes)
			}
		}
		tr.Complete(nil)
		for take() {
		}
		if got.err == transcript.ErrBehind {
			require.Greater(t, len(want.body), int(keep))
			return
		}
		require.Equal(t, io.EOF, got.err)
		require.Equal(t, want.body, got.body)
		require.Equal(t, want.flushes, got.flushes)
	})
}
