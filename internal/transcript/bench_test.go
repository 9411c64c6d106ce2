package transcript_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/reqlock/reqlock/internal/transcript"
)

// readers of the benchmarks.
var crowds = []int{1, 10, 100, 1000}

// BenchmarkTokens sends 1,000 tokens, each flushed, to readers that are there from the
// beginning.
func BenchmarkTokens(b *testing.B) {
	for _, readers := range crowds {
		b.Run(strconv.Itoa(readers), func(b *testing.B) {
			for b.Loop() {
				tr := transcript.New(plenty)
				wait := follow(b, tr, readers)
				writeTokens(tr, 1000)
				tr.Complete(nil)
				wait()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*1000*readers), "ns/token-reader")
		})
	}
}

// BenchmarkLate has one reader come when all tokens are there.
func BenchmarkLate(b *testing.B) {
	for _, tokens := range []int{100, 1000, 10000, 100000} {
		b.Run(strconv.Itoa(tokens), func(b *testing.B) {
			tr := transcript.New(64 << 20)
			writeTokens(tr, tokens)
			tr.Complete(nil)
			for b.Loop() {
				follow(b, tr, 1)()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tokens), "ns/token")
		})
	}
}

// BenchmarkLeave has readers come, read the same, and leave.
func BenchmarkLeave(b *testing.B) {
	for _, readers := range crowds {
		b.Run(strconv.Itoa(readers), func(b *testing.B) {
			for b.Loop() {
				tr := transcript.New(plenty)
				writeTokens(tr, 1)
				all := make([]*transcript.Reader, readers)
				for i := range all {
					all[i], _ = tr.Reader(func(error) {})
					_, _, _ = all[i].Next(b.Context())
				}
				for _, r := range all {
					r.Close()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*readers), "ns/reader")
		})
	}
}

func writeTokens(tr *transcript.Transcript, n int) {
	token := "data: {\"delta\":\"" + strings.Repeat("x", 20) + "\"}\n\n"
	for range n {
		_, _ = tr.WriteString(token)
		tr.Flush()
	}
}

// follow has so many readers send a transcript to nowhere, until they are waited for.
func follow(b *testing.B, tr *transcript.Transcript, readers int) (wait func()) {
	var all sync.WaitGroup
	for range readers {
		r, err := tr.Reader(func(error) {})
		if err != nil {
			b.Fatal(err)
		}
		all.Go(func() {
			defer r.Close()
			if err := transcript.Send(b.Context(), nowhere{}, r); err != nil {
				b.Error(err)
			}
		})
	}
	return all.Wait
}

type nowhere struct{}

func (nowhere) Header() http.Header               { return nil }
func (nowhere) WriteHeader(int)                   {}
func (nowhere) Write(p []byte) (int, error)       { return io.Discard.Write(p) }
func (nowhere) WriteString(s string) (int, error) { return len(s), nil }
func (nowhere) FlushError() error                 { return nil }
