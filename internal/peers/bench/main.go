package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
)

type config struct {
	scenarios []scenario
	peers     []peer
	runs      int
	quick     bool
	redis     string
	markdown  bool
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == workerFlag {
		work(os.Args[2])
	}
	c := config{scenarios: scenarios, peers: peers}
	flag.Func("scenario", "which `scenarios` to run, as in a,b (default all)", func(list string) (err error) {
		c.scenarios, err = pick(scenarios, list, func(s scenario) string { return s.id })
		return err
	})
	flag.Func("only", "which `peers` to run, as in reqlock,bsm/redislock (default all)", func(list string) (err error) {
		c.peers, err = pick(peers, list, func(p peer) string { return p.name })
		return err
	})
	flag.IntVar(&c.runs, "runs", 5, "how often to run each; figures are medians")
	flag.BoolVar(&c.quick, "quick", false, "run each once and briefly: a test of the benchmark")
	flag.StringVar(&c.redis, "redis", "", "`host:port` of a redis-server that does nothing else (default one of its own)")
	flag.BoolVar(&c.markdown, "markdown", false, "print the tables for a README")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, c, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// pick returns those of all that a comma-separated list names.
func pick[T any](all []T, list string, name func(T) string) ([]T, error) {
	var picked []T
	for want := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(t T) bool { return name(t) == want })
		if i < 0 {
			var names []string
			for _, t := range all {
				names = append(names, name(t))
			}
			return nil, fmt.Errorf("there is no %q, there are %s", want, strings.Join(names, ","))
		}
		picked = append(picked, all[i])
	}
	return picked, nil
}

func run(ctx context.Context, c config, out, progress io.Writer) error {
	if c.runs < 1 {
		return errors.New("-runs must be at least 1")
	}
	b := bench{scale: thorough}
	if c.quick {
		b.scale, c.runs = brief, 1
	}
	if c.redis == "" {
		addr, stop, err := startRedis()
		if err != nil {
			return err
		}
		defer stop()
		c.redis = addr
	}
	server, err := connect(ctx, c.redis)
	if err != nil {
		return err
	}
	defer server.close()
	b.server = server
	rows, err := b.rows(ctx, c, progress)
	if ctx.Err() != nil { // workers fail as well, since Ctrl-C reaches them too
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	write := writeText
	if c.markdown {
		write = writeMarkdown
	}
	fmt.Fprintln(out, head(c, server))
	failed := false
	for i, s := range c.scenarios {
		fmt.Fprintf(out, "\n(%s) %s\n\n", s.id, s.title)
		write(out, tabulate(s, rows[i]))
		lines, overlapped := troubles(rows[i])
		failed = failed || overlapped
		for _, l := range lines {
			fmt.Fprintf(out, "\n%s\n", l)
		}
	}
	if failed {
		return errors.New("a lock did not exclude: see ERROR")
	}
	return nil
}

// head says what ran where.
func head(c config, s *server) string {
	versions := make(map[string]string)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			versions[d.Path] = d.Version
		}
	}
	runs := "one run"
	switch {
	case c.quick:
		runs = "quick: less of everything than the titles say, no figures to go by"
	case c.runs > 1:
		runs = fmt.Sprintf("medians of %d runs", c.runs)
	}
	var names []string
	for _, p := range c.peers {
		names = append(names, strings.TrimSpace(p.name+" "+versions[p.module]))
	}
	return fmt.Sprintf("%s, on go-redis %s; %d cores, %s %s/%s, Redis %s; %s",
		strings.Join(names, ", "), versions["github.com/redis/go-redis/v9"], runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, s.version, runs)
}
