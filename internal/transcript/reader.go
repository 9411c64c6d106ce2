package transcript

import (
	"context"
	"io"
	"net/http"
	"sort"
)

// A Reader reads a [Transcript] from its beginning. It is for one goroutine at a time,
// but for Close, and must be closed.
type Reader struct {
	t       *Transcript
	behind  context.CancelCauseFunc
	offset  int64 // of the next byte
	block   int   // that it is in, or at the end of, those that are gone included
	within  int   // where in that
	flushed int64 // the newest flush point that was returned; -1: none
}

// Reader returns a reader, or [ErrTooLate]. behind is called with [ErrBehind] when it is
// cut off, so that what it is doing with what it has read can be ended; it must not block.
func (t *Transcript) Reader(behind context.CancelCauseFunc) (*Reader, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start > 0 {
		return nil, ErrTooLate
	}
	r := &Reader{t: t, behind: behind, flushed: -1}
	t.readers[r] = struct{}{}
	if t.patience.slow > 0 {
		t.patience.slow++ // like those that were there
	}
	return r, nil
}

// Close says that nothing will be read any more.
func (r *Reader) Close() {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	r.t.remove(r)
}

// remove takes a reader out, which may be the one that sets the pace. The mutex is held.
func (t *Transcript) remove(r *Reader) {
	if _, ok := t.readers[r]; !ok {
		return
	}
	delete(t.readers, r)
	t.reached(r.offset, t.size)
	t.left = t.left || r.offset == t.furthest
	t.ease()
}

// Head waits for the head.
//
// Errors are the cause of ctx, and where the response ended without a head, [io.EOF] or
// why it broke off.
func (r *Reader) Head(ctx context.Context) (h *Head, err error) {
	err = r.wait(ctx, func() (bool, error) {
		h = r.t.head
		return h != nil, nil
	})
	return h, err
}

// Trailer returns the trailer of a response that is complete. It belongs to all readers
// and must not be changed.
func (r *Reader) Trailer() http.Header {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	return r.t.trailer
}

// Next waits for the next bytes, and returns as many as there are in one piece, up to
// the next flush point. flush says that they were flushed then, as they are to be passed
// on; it can come without a byte. The bytes belong to all readers and must not be
// changed; they stay valid.
//
// Errors come without bytes: [io.EOF] where the response is complete, the cause where it
// broke off, [ErrBehind], and the cause of ctx.
func (r *Reader) Next(ctx context.Context) (p []byte, flush bool, err error) {
	err = r.wait(ctx, func() (bool, error) {
		if r.offset < r.t.start {
			return false, ErrBehind
		}
		from := r.offset
		p, flush = r.piece()
		if flush {
			r.flushed = r.offset
		}
		r.t.advanced(r, from)
		return len(p) > 0 || flush, nil
	})
	return p, flush, err
}

// advanced notes where a reader is now. The mutex is held.
func (t *Transcript) advanced(r *Reader, from int64) {
	if _, ok := t.readers[r]; !ok {
		return
	}
	t.reached(from, r.offset)
	if r.offset > t.furthest {
		t.furthest = r.offset
		t.ease()
	}
}

// wait waits until there is what it waits for, or an error, or the end.
func (r *Reader) wait(ctx context.Context, there func() (bool, error)) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.t.mu.Lock()
		ok, err := there()
		switch {
		case ok || err != nil:
		case r.t.cause != nil:
			err = r.t.cause
		case r.t.ended:
			err = io.EOF
		default:
			changed := r.t.nextChange()
			r.t.mu.Unlock()
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		r.t.mu.Unlock()
		return err
	}
}

// nextChange returns a channel that is closed then. The mutex is held.
func (t *Transcript) nextChange() <-chan struct{} {
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// piece returns what there is in one piece, up to the next flush point, and goes there.
// flush says that it ends at one. The mutex is held.
func (r *Reader) piece() (p []byte, flush bool) {
	t := r.t
	end, due := t.size, false
	if i := sort.Search(len(t.flushes), func(i int) bool { return t.flushes[i] > r.flushed }); i < len(t.flushes) {
		end, due = t.flushes[i], true
	}
	if r.offset == end {
		return nil, due
	}
	i := r.block - t.gone // -1: it has read all of one that is gone
	if i < 0 || r.within == len(t.blocks[i]) {
		i++
		r.within = 0
	}
	p = t.blocks[i][r.within:]
	p = p[:min(int64(len(p)), end-r.offset)]
	r.block, r.within = t.gone+i, r.within+len(p)
	r.offset += int64(len(p))
	return p[:len(p):len(p)], due && r.offset == end
}
