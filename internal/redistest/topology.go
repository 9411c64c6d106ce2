package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// tolerance bounds what a failover may take. An election that ends in a tie
	// is held again, and on a busy machine more than once.
	tolerance = 60 * time.Second

	// answerTime is how long a server has to answer a question about its
	// topology before it counts as down.
	answerTime = 500 * time.Millisecond
)

// replicated is the configuration of servers that replicate each other: what
// Redis puts off by seconds, to save work or noise, is done at once.
var replicated = []string{
	"repl-diskless-sync yes",
	"repl-diskless-sync-delay 0",
	"repl-ping-replica-period 1",
	// Otherwise a restarted server would come up with what its last full
	// synchronization left on disk.
	"rdb-del-sync-files yes",
}

// eventually waits until check returns nil, and fails the test with its last
// error if it never does.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(tolerance)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("redistest: wait for %s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// askAll puts a question to all servers at once and returns the answers of
// those that gave one in time.
func askAll[A any](servers []*Server, question func(context.Context, *redis.Client) (A, error)) map[*Server]A {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		answers = make(map[*Server]A, len(servers))
	)
	for _, s := range servers {
		if s.down() {
			continue // the client would try for long, and log it
		}
		wg.Go(func() {
			if a, err := question(ctx, s.client); err == nil {
				mu.Lock()
				defer mu.Unlock()
				answers[s] = a
			}
		})
	}
	wg.Wait()
	return answers
}

// down reports whether the server is not even there.
func (s *Server) down() bool {
	select {
	case <-s.proc.Exited():
		return true
	default:
		return false
	}
}

// inSync returns nil once the master and all of these replicas agree that they
// are connected and that the replicas have the data.
func inSync(ctx context.Context, master *Server, replicas ...*Server) error {
	for _, r := range replicas {
		info, err := r.client.InfoMap(ctx, "replication").Result()
		if err != nil {
			return err
		}
		if link := info["Replication"]["master_link_status"]; link != "up" {
			return fmt.Errorf("link of %s: %q", r.Addr(), link)
		}
	}
	info, err := master.client.Info(ctx, "replication").Result()
	if err != nil {
		return err
	}
	if online := strings.Count(info, "state=online"); online != len(replicas) {
		return fmt.Errorf("%d replicas online at %s", online, master.Addr())
	}
	return nil
}

// at returns the server with this address.
func at(servers []*Server, addr string) (*Server, error) {
	i := slices.IndexFunc(servers, func(s *Server) bool { return s.Addr() == addr })
	if i < 0 {
		return nil, fmt.Errorf("no server is at %q", addr)
	}
	return servers[i], nil
}

func addrs(servers []*Server) []string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.Addr()
	}
	return list
}
