package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// startRedis starts a redis-server that keeps nothing on disk, on a free port of
// the loopback interface. Stop ends it; so does the end of this process, however
// it comes, since the shell then reads the end of its input.
func startRedis() (addr string, stop func(), err error) {
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return "", nil, errors.New("redis-server is not on the PATH: install it, or name a running one with -redis")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("find a free port: %w", err)
	}
	addr = l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	_ = l.Close()
	cmd := exec.Command("sh", "-c", `"$@" & read -r _; kill $!; wait`, "sh",
		bin, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no")
	cmd.WaitDelay = time.Second
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start redis-server: %w", err)
	}
	stop = func() { _ = in.Close(); _ = cmd.Wait() }
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
			return addr, stop, nil
		}
		if time.Now().After(deadline) {
			stop()
			return "", nil, fmt.Errorf("start redis-server: %w\n%s", err, &log)
		}
	}
}

// A server is the redis-server, as the benchmark itself asks it.
type server struct {
	addr    string
	client  *redis.Client
	version string
}

func connect(ctx context.Context, addr string) (*server, error) {
	s := &server{addr: addr, client: redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})}
	info, err := s.client.InfoMap(ctx, "server").Result()
	if err != nil {
		_ = s.client.Close()
		return nil, fmt.Errorf("ask redis-server at %s: %w", addr, err)
	}
	s.version = info["Server"]["redis_version"]
	return s, nil
}

func (s *server) close() { _ = s.client.Close() }

// noLoop is for setup.
func (s *server) noLoop() bool {
	var major, minor, patch int
	_, _ = fmt.Sscanf(s.version, "%d.%d.%d", &major, &minor, &patch)
	return slices.Compare([]int{major, minor, patch}, []int{7, 0, 5}) >= 0
}

// calls returns how many commands the server has carried out, those in scripts
// included, but for those that are not counted: see doc.go.
func (s *server) calls(ctx context.Context) (int64, error) {
	info, err := s.client.InfoMap(ctx, "commandstats").Result()
	if err != nil {
		return 0, fmt.Errorf("ask for command statistics: %w", err)
	}
	var sum int64
	for stat, value := range info["Commandstats"] {
		name := strings.TrimPrefix(stat, "cmdstat_")
		if opening(name) || name == "ping" || name == "info" {
			continue
		}
		// calls=2,usec=5,…
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read command statistics: %w", err)
		}
		sum += n
	}
	return sum, nil
}
