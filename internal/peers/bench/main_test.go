package main_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/reqlock/reqlock/internal/proctest"
	"github.com/reqlock/reqlock/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts the benchmark, all of its processes with the race detector.
func start(t *testing.T, args ...string) *proctest.Process {
	t.Helper()
	bin := proctest.Build(t, "github.com/reqlock/reqlock/internal/peers/bench", "-race")
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // it sleeps a second in each
	return proctest.Start(t, cmd)
}

// wait waits for the end of the benchmark, which a test takes seconds for.
func wait(t *testing.T, p *proctest.Process) (code int) {
	t.Helper()
	select {
	case <-p.Exited():
	case <-time.After(2 * time.Minute):
		require.Fail(t, "the benchmark does not end")
	}
	return p.ExitCode()
}

// table returns the lines of a scenario's table as cells, a row's name first.
func table(t *testing.T, output, scenario, separator string) [][]string {
	t.Helper()
	_, rest, found := strings.Cut(output, "\n("+scenario+") ")
	require.True(t, found, "scenario %s", scenario)
	_, rest, _ = strings.Cut(rest, "\n\n")
	rest, _, _ = strings.Cut(rest, "\n\n")
	var lines [][]string
	for line := range strings.Lines(rest) {
		lines = append(lines, regexp.MustCompile(separator).Split(strings.Trim(line, " |\n"), -1))
	}
	return lines
}

func TestBench(t *testing.T) {
	p := start(t, "-quick")
	require.Zero(t, wait(t, p))
	assert.NotContains(t, p.Output(), "ERROR")
	assert.Regexp(t, `reqlock, redsync v\S+, bsm/redislock v\S+, rueidislock v\S+, on go-redis v\S+; \d+ cores, go\S+ \S+, Redis \d\S+; quick: .+\n`, p.Output())
	all := []string{"reqlock", "redsync", "bsm/redislock", "rueidislock"}
	limited := append(slices.Clone(all), "sync.Mutex")
	for _, c := range []struct {
		scenario string
		figures  int
		names    []string
	}{
		{"a", 10, all},
		{"b", 10, limited},
		{"c", 10, limited},
		{"d", 6, all},
		{"e", 8, []string{"reqlock", "rueidislock"}},
		{"f", 6, all},
		{"g", 5, all},
	} {
		lines := table(t, p.Output(), c.scenario, "  +")
		require.Len(t, lines, 1+len(c.names))
		assert.Len(t, lines[0], c.figures)
		for i, name := range c.names {
			row := lines[1+i]
			assert.Equal(t, name, row[0])
			assert.Len(t, row[1:], c.figures)
			assert.Regexp(t, `^\d+(\.\d+)?$`, row[1], "%s of %s", lines[0][0], name)
		}
	}
}

func TestMarkdown(t *testing.T) {
	server := redistest.Start(t)
	p := start(t, "-quick", "-markdown", "-scenario", "d,g", "-only", "reqlock,redsync", "-redis", server.Addr())
	require.Zero(t, wait(t, p))
	for scenario, head := range map[string][]string{
		"d": {"mean", "× best", "p50", "p99", "max", "hand-offs"},
		"g": {"waiter", "× best", "to begin with", "pings/s", "holder"},
	} {
		lines := table(t, p.Output(), scenario, ` *\| *`)
		require.Len(t, lines, 4)
		assert.Equal(t, head, lines[0])
		assert.Equal(t, "---"+strings.Repeat("|---:", len(head)), strings.Join(lines[1], "|"))
		for i, name := range []string{"reqlock", "redsync"} {
			assert.Equal(t, name, lines[2+i][0])
			assert.Len(t, lines[2+i][1:], len(head))
		}
	}
	assert.NotContains(t, p.Output(), "\n(a)")
	assert.NotContains(t, p.Output(), "rueidislock")
	assert.Empty(t, slices.DeleteFunc(server.Keys("*"), func(key string) bool {
		return server.Client().PTTL(t.Context(), key).Val() > 0
	}), "keys that stay")
}

func TestRefused(t *testing.T) {
	closed := redistest.Start(t)
	closed.Kill()
	for _, c := range []struct{ args, says string }{
		{"-scenario a,x", `there is no "x", there are a,b,c,d,e,f,g`},
		{"-only bsm", `there is no "bsm", there are reqlock,redsync,bsm/redislock,rueidislock`},
		{"-runs 0", "-runs must be at least 1"},
		{"-redis " + closed.Addr(), "bench: ask redis-server at " + closed.Addr()},
	} {
		t.Run(c.args, func(t *testing.T) {
			p := start(t, strings.Fields(c.args)...)
			require.NotZero(t, wait(t, p))
			assert.Contains(t, p.Output(), c.says)
		})
	}
}

// However the benchmark ends, nothing that it has started is left.
func TestLeavesNoProcess(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		group  bool // to all processes, as from a terminal
		own    bool // redis-server
		says   string
	}{
		{"Ctrl-C", syscall.SIGINT, true, false, "bench: interrupt"},
		{"interrupt", syscall.SIGINT, false, false, "bench: interrupt"},
		{"terminate", syscall.SIGTERM, false, false, "bench: terminated"},
		{"kill", syscall.SIGKILL, false, false, ""},
		{"Ctrl-C, own server", syscall.SIGINT, true, true, "bench: interrupt"},
		{"terminate, own server", syscall.SIGTERM, false, true, "bench: terminated"},
		{"kill, own server", syscall.SIGKILL, false, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"-scenario", "g", "-only", "reqlock"}
			all := 5 // the benchmark, two workers, sh and redis-server
			working := func() bool { return true }
			if !c.own {
				server := redistest.Start(t)
				args, all = append(args, "-redis", server.Addr()), 3
				working = func() bool { return len(server.Keys("reqlock:{bench:*:0}:lock")) == 1 }
			}
			p := start(t, args...)
			group := p.Pid()
			require.Eventually(t, func() bool { return members(t, group) == all && working() }, 20*time.Second, 10*time.Millisecond)
			to := group
			if c.group {
				to = -group
			}
			require.NoError(t, syscall.Kill(to, c.signal))
			require.NotZero(t, wait(t, p))
			require.Eventually(t, func() bool { return members(t, group) == 0 }, 10*time.Second, 10*time.Millisecond)
			assert.Contains(t, p.Output(), c.says)
		})
	}
}

// members counts the processes of a group.
func members(t *testing.T, group int) int {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-o", "pgid=,stat=").Output()
	require.NoError(t, err)
	n := 0
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if f[0] == strconv.Itoa(group) && !strings.HasPrefix(f[1], "Z") {
			n++
		}
	}
	return n
}
