// Chatserver answers each chat session's messages one at a time, however many
// copies of it run. It speaks OpenAI's API, so that any client of that can talk
// to it:
//
//	go run ./examples/chatserver
//
// sessionKey says what is locked, newHandler where the lock is, run how it is
// set up. With -h it explains its flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9/logging"

	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

func main() {
	gin.SetMode(gin.ReleaseMode)
	logging.Disable() // go-redis': one line per failed dial. The Locker tells of an outage once.

	// The first signal ends the server gracefully, the second one at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		stop()
		slog.Info("shutting down when all answers are complete; a second signal ends at once", "most", drainTime)
	})

	c, err := parseConfig(os.Args[1:], os.Getenv)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Print(help)
		return
	}
	if err != nil {
		fail(2, fmt.Errorf("%w (-h explains the flags)", err))
	}
	if err := run(ctx, c, os.Stdout); err != nil {
		fail(1, err)
	}
}

func fail(code int, err error) {
	fmt.Fprintln(os.Stderr, "chatserver:", strings.ReplaceAll(err.Error(), "\n", " "))
	os.Exit(code)
}

// run serves until ctx is done.
func run(ctx context.Context, c config, out io.Writer) error {
	rdb, closeRedis, err := openRedis(c.redis, c.fallback)
	if err != nil {
		return err
	}
	defer closeRedis()
	redis := &outage{fallback: c.fallback}
	locks, err := redislock.New(rdb, redislock.WithObserver(redis.observed(lock.LogTo(nil))))
	if err != nil {
		return err
	}
	defer locks.Close()
	guard := newGuard(locks, c.wait, c.fallback)

	var b backend = demoModel{delay: c.modelDelay}
	if c.upstream != nil {
		b = newUpstream(c.upstream, c.apiKey)
	}
	page, err := newPage(c.wait, redis)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: does another one run? -listen takes another address", err)
	}
	if err != nil {
		return err
	}
	announce(out, c, l.Addr())
	return serve(ctx, l, newHandler(b, guard, page), drainTime)
}

// announce says what runs and where it is. The last line means that it is.
func announce(out io.Writer, c config, addr net.Addr) {
	model := demoModelName + ", built in"
	if c.upstream != nil {
		model = "those of " + c.upstream.String()
	}
	redis := "embedded, for this process only; -redis shares the locks with others"
	if c.redis != nil {
		redis = c.redis.Addr
	}
	fmt.Fprintf(out, "chatserver: model: %s\nchatserver: redis: %s\nchatserver: open %s\n", model, redis, pageURL(addr))
}

// pageURL is where a browser on this machine finds what listens on addr.
func pageURL(addr net.Addr) string {
	tcp := addr.(*net.TCPAddr)
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = "localhost"
	}
	return fmt.Sprintf("http://%s/", net.JoinHostPort(host, fmt.Sprint(tcp.Port)))
}
