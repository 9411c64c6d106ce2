package keyfuncs_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/keyfuncs"
)

// seen is what a handler behind a key function found.
type seen struct {
	path, key, body, trailer string
	length                   int64
	encoding                 []string
	err                      error
}

// server runs f on each request, and then, unless it fails, the handler.
func server(t *testing.T, f keyfuncs.Func) (*httptest.Server, <-chan seen) {
	t.Helper()
	requests := make(chan seen, 100)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := seen{path: r.URL.Path}
		defer func() { requests <- s }()
		defer r.Body.Close()
		r = r.WithContext(r.Context()) // as the package doc asks for
		if s.key, s.err = f(r); s.err != nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		body, err := io.ReadAll(r.Body)
		s.body, s.err, s.length, s.encoding, s.trailer = string(body), err, r.ContentLength, r.TransferEncoding, r.Trailer.Get("X-Sum")
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv, requests
}

// connect opens a plain HTTP/1.1 connection.
func connect(t *testing.T, srv *httptest.Server) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := tls.Dial("tcp", srv.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second))) // a bound for a test that hangs
	return conn, bufio.NewReader(conn)
}

func status(t *testing.T, r *bufio.Reader) int {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	return resp.StatusCode
}

func TestServer_HTTP2(t *testing.T) {
	srv, requests := server(t, userAndSession)
	resp, err := srv.Client().Post(srv.URL, "application/json", io.MultiReader(strings.NewReader(chat)))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 2, resp.ProtoMajor)
	got := <-requests
	assert.Equal(t, seen{path: "/", key: "u1:s1", body: chat, length: -1}, got)
}

func TestServer_ContentLengthThenNextRequest(t *testing.T) {
	srv, requests := server(t, userAndSession)
	conn, r := connect(t, srv)
	for range 2 {
		_, err := fmt.Fprintf(conn, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(chat), chat)
		require.NoError(t, err)
		assert.Equal(t, 200, status(t, r))
		assert.Equal(t, seen{path: "/a", key: "u1:s1", body: chat, length: int64(len(chat))}, <-requests)
	}
}

func TestServer_ChunkedWithTrailer(t *testing.T) {
	srv, requests := server(t, userAndSession)
	conn, r := connect(t, srv)
	for range 2 {
		_, err := fmt.Fprintf(conn, "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\na\r\n%s\r\n%x\r\n%s\r\n0\r\nX-Sum: 7\r\n\r\n",
			chat[:10], len(chat)-10, chat[10:])
		require.NoError(t, err)
		assert.Equal(t, 200, status(t, r))
		assert.Equal(t, seen{path: "/a", key: "u1:s1", body: chat, length: -1, encoding: []string{"chunked"}, trailer: "7"}, <-requests)
	}
}

func TestServer_ExpectContinue(t *testing.T) {
	srv, requests := server(t, userAndSession)
	conn, r := connect(t, srv)
	for range 2 {
		_, err := fmt.Fprintf(conn, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(chat))
		require.NoError(t, err)
		// Comes once the Func reads: nothing of the body was sent yet.
		require.Equal(t, 100, status(t, r))
		_, err = io.WriteString(conn, chat)
		require.NoError(t, err)
		assert.Equal(t, 200, status(t, r))
		assert.Equal(t, chat, (<-requests).body)
	}
}

// What is declared to be too large is turned away before the client sends it.
func TestServer_ExpectContinueTooLarge(t *testing.T) {
	srv, requests := server(t, userAndSession)
	conn, r := connect(t, srv)
	_, err := fmt.Fprintf(conn, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", keyfuncs.MaxBody+1)
	require.NoError(t, err)
	assert.Equal(t, http.StatusTeapot, status(t, r))
	assertTooLarge(t, (<-requests).err, keyfuncs.MaxBody)
}

// A handler that closes the body early must not leave bytes on the connection
// that are then taken for the next request: those are the attacker's.
func TestServer_NothingOfABodyBecomesARequest(t *testing.T) {
	smuggled := strings.Repeat("GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", 3*keyfuncs.MaxBody/35)
	for name, body := range map[string]string{
		"too large":    fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(smuggled), smuggled),
		"broken chunk": "1\r\n{\r\nzz\r\n" + smuggled[:1<<12],
	} {
		t.Run(name, func(t *testing.T) {
			srv, requests := server(t, userAndSession)
			conn, r := connect(t, srv)
			go func() { // ends with the connection
				_, _ = io.WriteString(conn, "POST /first HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+body)
			}()
			assert.Equal(t, http.StatusTeapot, status(t, r))
			assert.Equal(t, "/first", (<-requests).path)
			_, err := http.ReadResponse(r, nil)
			require.Error(t, err, "no second answer")
			srv.Close()
			assert.Empty(t, requests)
		})
	}
}

func TestServer_ClientGoesAwayInTheMiddle(t *testing.T) {
	srv, requests := server(t, userAndSession)
	conn, _ := connect(t, srv)
	_, err := fmt.Fprintf(conn, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(chat), chat[:20])
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	got := <-requests
	assert.ErrorIs(t, got.err, io.ErrUnexpectedEOF)
	assert.Empty(t, got.key)
}
