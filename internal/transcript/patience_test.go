package transcript_test

import (
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reqlock/reqlock/internal/transcript"
)

// Readers that are about as fast as each other get all of it, however much that is. One
// that is slow is cut off, and has not cost the others much.
func TestReadersAreWaitedForALittle(t *testing.T) {
	const kept, size, piece = 256 << 10, 4 << 20, 32 << 10
	for _, c := range []struct {
		name    string
		pause   time.Duration // of the other reader, for each piece
		err     error
		atMost  time.Duration // for the one that does not pause
		atLeast time.Duration
	}{
		{"fast", 0, io.EOF, 0, 0},
		{"a little slower", 5 * time.Millisecond, io.EOF, size / piece * 5 * time.Millisecond, 0},
		{"slow", 500 * time.Millisecond, transcript.ErrBehind, time.Second, 0},
		{"stuck", time.Hour, transcript.ErrBehind, time.Second, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := transcript.New(kept)
				begun := time.Now()
				var all sync.WaitGroup
				reader := func(pause time.Duration, want error, done func(took time.Duration)) {
					r := newReader(t, tr)
					all.Go(func() {
						defer r.Close()
						for {
							if _, _, err := r.Next(t.Context()); err != nil {
								assert.Equal(t, want, err)
								done(time.Since(begun))
								return
							}
							time.Sleep(pause)
						}
					})
				}
				reader(c.pause, c.err, func(time.Duration) {})
				reader(0, io.EOF, func(took time.Duration) {
					assert.LessOrEqual(t, took, c.atMost)
					assert.GreaterOrEqual(t, took, c.atLeast)
				})
				p := make([]byte, piece)
				for range size / piece {
					write(t, tr, p)
				}
				tr.Complete(nil)
				all.Wait()
			})
		})
	}
}

// Who comes while others are waited for is, too, and does not take their place.
func TestReadersThatComeLateAreWaitedFor(t *testing.T) {
	const kept = 64 << 10
	synctest.Test(t, func(t *testing.T) {
		tr := transcript.New(kept)
		p := make([]byte, kept)
		slow, fast := newReader(t, tr), newReader(t, tr)
		take := func(r *transcript.Reader) {
			_, _, err := r.Next(t.Context())
			assert.NoError(t, err)
		}
		write(t, tr, p)
		take(fast)
		begun := time.Now()
		var all sync.WaitGroup
		all.Go(func() { write(t, tr, p) }) // waits for slow
		synctest.Wait()
		late := newReader(t, tr)
		take(late)
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		take(slow)
		all.Wait()
		assert.Equal(t, 10*time.Millisecond, time.Since(begun))
		take(slow)
		take(late)
	})
}
