package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client that takes nothing is cut off. One that takes its time, and one that asks
// again after a while, get all of it.
func TestStalledClient(t *testing.T) {
	const timeout = 300 * time.Millisecond
	const size = 64 << 20 // more than the kernel takes for a client
	failed := make(chan error, 1)
	router := gin.New()
	router.Use(limitStalls(timeout))
	router.GET("/large", func(c *gin.Context) {
		_, err := c.Writer.Write(make([]byte, size))
		failed <- err
	})
	router.POST("/echo", func(c *gin.Context) {
		body, err := io.ReadAll(c.Request.Body) // net/http asks for it
		assert.NoError(t, err)
		c.String(http.StatusOK, string(body))
	})
	url := serveTest(t, router)

	conn, err := net.Dial("tcp", url[len("http://"):])
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	require.ErrorIs(t, receive(t, failed), os.ErrDeadlineExceeded)

	client := newClient(t)
	resp, err := client.Get(url + "/large")
	require.NoError(t, err)
	defer resp.Body.Close()
	got := 0
	for start := time.Now(); ; { // for longer than the timeout
		n, err := io.CopyN(io.Discard, resp.Body, size/10)
		got += int(n)
		if errors.Is(err, io.EOF) {
			assert.Greater(t, time.Since(start), timeout)
			break
		}
		require.NoError(t, err)
		pause(timeout / 5)
	}
	assert.Equal(t, size, got)
	require.NoError(t, receive(t, failed))

	again, err := net.Dial("tcp", url[len("http://"):])
	require.NoError(t, err)
	defer again.Close()
	answers := bufio.NewReader(again)
	for range 2 {
		_, err = io.WriteString(again, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
		require.NoError(t, err)
		resp, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusContinue, resp.StatusCode)
		_, err = io.WriteString(again, "hello")
		require.NoError(t, err)
		resp, err = http.ReadResponse(answers, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "hello", string(body))
		require.NoError(t, resp.Body.Close())
		pause(2 * timeout)
	}
}

// pause is what a slow client does.
func pause(d time.Duration) { <-time.After(d) }
