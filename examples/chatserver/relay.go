package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
)

// maxLine is the longest line of a stream that is passed on.
const maxLine = 1 << 20

// forwardEvents passes a stream on as it comes. It ends well only where the
// upstream says so, with [DONE]: all other ends, a clean one included, may have
// cut the answer short.
func forwardEvents(w http.ResponseWriter, r *http.Request, from io.Reader) {
	events := startEvents(w)
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	lines.Split(wholeLines)
	inEvent := false
	for lines.Scan() {
		line := lines.Text()
		if line == "data: [DONE]" || line == "data:[DONE]" {
			events.done()
			return
		}
		events.line(line)
		inEvent = line != ""
	}
	if inEvent {
		events.line("")
	}
	if r.Context().Err() == nil {
		err := lines.Err()
		if err == nil {
			err = errors.New("the stream ended without [DONE]")
		}
		slog.Error("the upstream broke off its answer", "err", err)
	}
	events.breakOff(whyCut(r.Context()))
}

// wholeLines is a bufio.SplitFunc like bufio.ScanLines, but drops a last line
// without an end: half an event, cut off with the stream.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if bytes.IndexByte(data, '\n') < 0 {
		return 0, nil, nil
	}
	return bufio.ScanLines(data, atEOF)
}
