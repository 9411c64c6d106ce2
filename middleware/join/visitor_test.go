package join_test

import (
	"context"
	"io"
	"net/http"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware"
)

// A visitor is a client's request in flight.
type visitor struct {
	s      *site
	hangUp context.CancelFunc
	came   chan struct{} // closed when there is resp, or err
	resp   *http.Response
	err    error
}

func (s *site) send(r *http.Request) *visitor { return s.sendBy(s.Client(), r) }

func (s *site) sendBy(client *http.Client, r *http.Request) *visitor {
	ctx, cancel := context.WithTimeout(r.Context(), 3*patience)
	v := &visitor{s: s, hangUp: cancel, came: make(chan struct{})}
	go func() {
		defer close(v.came)
		v.resp, v.err = client.Do(r.WithContext(ctx))
	}()
	s.t.Cleanup(func() {
		cancel()
		<-v.came
		if v.resp != nil {
			_ = v.resp.Body.Close()
		}
	})
	return v
}

// head waits for status and header.
func (v *visitor) head() *http.Response {
	v.s.t.Helper()
	<-v.came
	require.NoError(v.s.t, v.err)
	return v.resp
}

func (v *visitor) role() string {
	v.s.t.Helper()
	return v.head().Header.Get(middleware.RoleHeader)
}

// reads waits for the next part of the body, which is to be text.
func (v *visitor) reads(text string) {
	v.s.t.Helper()
	p := make([]byte, len(text))
	_, err := io.ReadFull(v.head().Body, p)
	require.NoError(v.s.t, err)
	require.Equal(v.s.t, text, string(p))
}

// rest reads the rest of the body.
func (v *visitor) rest() (string, error) {
	<-v.came
	if v.err != nil {
		return "", v.err
	}
	text, err := io.ReadAll(v.resp.Body)
	return string(text), err
}

// whole is rest, which is to come to a clean end.
func (v *visitor) whole() string {
	v.s.t.Helper()
	text, err := v.rest()
	require.NoError(v.s.t, err)
	return text
}

// broken requires that the client sees that it has not got all of it.
func (v *visitor) broken() {
	v.s.t.Helper()
	text, err := v.rest()
	assert.Error(v.s.t, err, "a clean end after %d bytes", len(text))
}

func readAll(all []*visitor) (texts []string) {
	for _, v := range all {
		v.s.t.Helper()
		texts = append(texts, v.whole())
	}
	return texts
}
