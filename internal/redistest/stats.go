package redistest

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// Keys returns the keys that match the pattern ("*" for all), sorted, as
// redis-cli --scan finds them.
func (s *Server) Keys(pattern string) []string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var keys []string
	scan := s.client.Scan(ctx, 0, pattern, 1000).Iterator()
	for scan.Next(ctx) {
		keys = append(keys, scan.Val())
	}
	if err := scan.Err(); err != nil {
		s.t.Fatalf("redistest: scan keys: %v", err)
	}
	slices.Sort(keys)
	return slices.Compact(keys) // SCAN may return a key twice
}

// Commands returns how often each of the commands was called since the server
// started, from INFO commandstats; without names, each one that was called at
// all. Names are lower-case, a subcommand's is as in "client|setinfo".
//
// A call made by a script counts as one made by a client does: the two cannot
// be told apart. Only eval, evalsha and fcall are always a client's. Where it
// matters use [Server.Monitor], which costs the server more; this costs
// nothing, so it suits benchmarks.
func (s *Server) Commands(names ...string) map[string]int64 {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	info, err := s.client.Info(ctx, "commandstats").Result()
	if err != nil {
		s.t.Fatalf("redistest: read command statistics: %v", err)
	}
	calls := make(map[string]int64)
	for _, name := range names {
		calls[name] = 0
	}
	for line := range strings.Lines(info) {
		// cmdstat_get:calls=2,usec=5,…
		name, stat, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok || len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		n, _, _ := strings.Cut(stat, ",")
		if calls[name], err = strconv.ParseInt(n, 10, 64); err != nil {
			s.t.Fatalf("redistest: read command statistics: %q: %v", line, err)
		}
	}
	return calls
}
