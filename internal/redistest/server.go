package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/reqlock/reqlock/internal/proctest"
)

// patience bounds every wait for a server. It is long because machines that
// run tests can be slow, and it is met only when something is broken.
const patience = 15 * time.Second

// A Server is a redis-server started by [Start] and the like. Its methods fail
// the test when they cannot do their work, so they must, like
// [testing.T.FailNow], be called from the goroutine that runs it, one at a
// time; Addr and Client may be called from any.
type Server struct {
	t      testing.TB
	mode   mode
	port   int
	proc   *proctest.Process
	client *redis.Client
}

// A mode is what a redis-server runs as.
type mode struct {
	flags []string
	up    string // what its log says when it serves
}

var (
	standalone = mode{up: "Ready to accept connections"} // or a node of a cluster
	sentinel   = mode{flags: []string{"--sentinel"}, up: "Sentinel ID is"}
)

// Start runs a redis-server on a free port of 127.0.0.1 and stops it when the
// test ends, after the cleanups registered later. It returns when the server
// answers PING.
//
// Each config is a line of redis.conf, as in "appendonly yes"; it comes after
// the package's own, which keep nothing on disk. The server's log is shown if
// the test fails.
func Start(t testing.TB, config ...string) *Server {
	t.Helper()
	return start(t, 1, standalone, config)[0]
}

// StartMasters starts n servers that know nothing of each other, each as
// [Start] does.
func StartMasters(t testing.TB, n int, config ...string) []*Server {
	t.Helper()
	return start(t, n, standalone, config)
}

// start starts n servers side by side.
func start(t testing.TB, n int, mode mode, config []string) []*Server {
	t.Helper()
	servers := make([]*Server, n)
	for i := range servers {
		servers[i] = &Server{t: t, mode: mode}
		servers[i].launch(config)
	}
	for _, s := range servers {
		s.await(config)
	}
	return servers
}

// launch starts the process on a port that is free now.
func (s *Server) launch(config []string) {
	s.t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		s.t.Fatal("redistest: redis-server is not on the PATH: apt-get install redis-server, brew install redis, or run ./scripts/test, which does that")
	}
	s.port = freePort(s.t)
	conf := configure(s.t, s.port, config)
	cmd := exec.Command(bin, append([]string{conf}, s.mode.flags...)...)
	cmd.Dir = filepath.Dir(conf)
	s.proc = proctest.Start(s.t, cmd)
}

// await returns when the server that was launched answers PING.
func (s *Server) await(config []string) {
	s.t.Helper()
	for { // until a port is still free when the server binds it
		err := s.ready()
		if err == nil {
			break
		}
		if !errors.Is(err, errPortTaken) {
			s.t.Fatal(err)
		}
		s.launch(config)
	}
	// The handshake says no more than it must: it shows in Monitor and Commands.
	s.client = redis.NewClient(&redis.Options{
		Addr:                     s.Addr(),
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	s.t.Cleanup(func() { _ = s.client.Close() })
	s.ping()
}

// Addr returns host:port, which stays the same over Restart.
func (s *Server) Addr() string { return loopback(s.port) }

// Client returns a client for the test's own use, always the same one. It is
// closed when the test ends, after the cleanups registered since Start.
func (s *Server) Client() *redis.Client { return s.client }

// Pause stops the server (SIGSTOP): connections stay open and are accepted,
// nothing is answered. What was sent meanwhile is carried out after Resume.
func (s *Server) Pause() { s.t.Helper(); s.proc.Pause() }

// Resume continues a paused server (SIGCONT).
func (s *Server) Resume() { s.t.Helper(); s.proc.Resume() }

// Kill kills the server (SIGKILL) and waits until it is gone: connections are
// reset and new ones refused.
func (s *Server) Kill() { s.proc.Kill() }

// Restart starts the server again, on the same port and with the same
// configuration, and returns when it answers PING; one that still runs is
// killed first. Its data is what its files hold: everything it had answered if
// "appendonly yes" was given, nothing by default.
func (s *Server) Restart() {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		s.proc.Restart()
		err := s.ready()
		if err == nil {
			break
		}
		// A child that went with the old process may not have let go yet.
		if !errors.Is(err, errPortTaken) || time.Now().After(deadline) {
			s.t.Fatal(err)
		}
	}
	s.ping()
}

var errPortTaken = errors.New("redistest: start redis-server: the port is taken")

// ready returns when the process serves. It goes by that very process' log: a
// PING might be answered by another test's server that took the port first.
func (s *Server) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := s.proc.Await(ctx, s.mode.up)
	if err == nil {
		return nil
	}
	if _, taken := s.proc.Await(ctx, "Address already in use"); taken == nil {
		return errPortTaken
	}
	return fmt.Errorf("redistest: start redis-server: %w", err)
}

func (s *Server) ping() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.client.Ping(ctx).Err(); err != nil {
		s.t.Fatalf("redistest: ping redis-server: %v", err)
	}
}

// configure writes a redis.conf to a directory of its own and returns its path.
func configure(t testing.TB, port int, config []string) string {
	t.Helper()
	lines := append([]string{
		"bind 127.0.0.1",
		fmt.Sprintf("port %d", port),
		"daemonize no",
		"loglevel notice", // ready waits for one of its lines
		`save ""`,
		// What is written to the append-only file before the reply survives
		// Kill. The default may put the write itself off while it syncs.
		"appendfsync no",
	}, config...)
	path := filepath.Join(t.TempDir(), "redis.conf")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatalf("redistest: write configuration: %v", err)
	}
	return path
}
