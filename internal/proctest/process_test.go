package proctest_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/proctest"
)

func sh(script string, args ...string) *exec.Cmd {
	return exec.Command("sh", append([]string{"-c", script, "sh"}, args...)...)
}

func TestOutput(t *testing.T) {
	cmd := sh(`echo "one $1 $NAME"; echo two >&2; printf three`, "arg")
	cmd.Env = append(os.Environ(), "NAME=value")
	p := proctest.Start(t, cmd)
	assert.Equal(t, "one arg value", p.WaitFor("arg"))
	assert.Equal(t, "two", p.WaitFor("tw"))
	assert.Equal(t, "three", p.WaitFor("three"), "the last line may lack its end")
	assert.Equal(t, 0, p.ExitCode())
	assert.Equal(t, "one arg value\ntwo\nthree", p.Output())
}

func TestOutputIsBounded(t *testing.T) {
	p := proctest.Start(t, sh(`head -c 3000000 /dev/zero; echo end`))
	p.WaitFor("end")
	assert.Len(t, p.Output(), 1<<20)
}

func TestWaitForWhatDoesNotCome(t *testing.T) {
	p := proctest.Start(t, sh(`echo one; exit 3`))
	_, err := p.Await(t.Context(), "two")
	require.ErrorIs(t, err, proctest.ErrExited)
	assert.Equal(t, 3, p.ExitCode())

	p = proctest.Start(t, sh(`echo one; exec sleep 100`))
	p.WaitFor("one")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = p.Await(ctx, "two")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestExitCode(t *testing.T) {
	const trapping = `trap 'echo int; exit 4' INT; trap 'echo term; exit 5' TERM; echo up; while :; do sleep 0.01; done`
	for _, tc := range []struct {
		name string
		end  func(*proctest.Process)
		code int
		says string
	}{
		{"interrupt", (*proctest.Process).Interrupt, 4, "int"},
		{"terminate", (*proctest.Process).Terminate, 5, "term"},
		{"kill", (*proctest.Process).Kill, -1, ""},
		{"kill paused", func(p *proctest.Process) { p.Pause(); p.Kill() }, -1, ""},
		{"resume", func(p *proctest.Process) { p.Pause(); p.Terminate(); p.Resume() }, 5, "term"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := proctest.Start(t, sh(trapping))
			p.WaitFor("up")
			tc.end(p)
			assert.Equal(t, tc.code, p.ExitCode())
			assert.Contains(t, p.Output(), tc.says)
			p.Kill() // nothing
		})
	}
}

func TestPause(t *testing.T) {
	p := proctest.Start(t, exec.Command("sleep", "100"))
	stopped := func() bool {
		state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(p.Pid())).Output()
		require.NoError(t, err)
		return strings.HasPrefix(string(state), "T")
	}
	require.False(t, stopped())
	p.Pause()
	require.Eventually(t, stopped, 10*time.Second, time.Millisecond)
	p.Resume()
	require.Eventually(t, func() bool { return !stopped() }, 10*time.Second, time.Millisecond)
}

func TestRestart(t *testing.T) {
	p := proctest.Start(t, sh(`echo "pid $$"; exec sleep 100`))
	first, pid := p.WaitFor("pid"), p.Pid()
	p.Restart()
	second := p.WaitFor("pid")
	assert.NotEqual(t, first, second, "the new run's line")
	assert.NotEqual(t, pid, p.Pid())
	assert.Equal(t, first+"\n"+second+"\n", p.Output())
	assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

func TestStartFails(t *testing.T) {
	tb := &failing{TB: t}
	tb.run(func() { proctest.Start(tb, exec.Command(filepath.Join(t.TempDir(), "nothing"))) })
	assert.Contains(t, tb.message, "proctest: start")
}

// A process and what it started are gone after the test, and its output is
// shown if the test has failed.
func TestEndsWithTheTest(t *testing.T) {
	alive := fifo(t)
	tb := &failing{TB: t}
	t.Run("test", func(t *testing.T) {
		tb.TB = t
		proctest.Start(tb, sh(`(exec sleep 100) 3>"$1" & echo up; wait`, alive)).WaitFor("up")
		tb.message = "failed"
	})
	waitUntilClosed(t, alive)
	assert.Contains(t, tb.logged, "up")
}

// They go as well when the test binary is killed and cannot clean up, and so
// does what Build has built.
func TestEndsWithTheTestBinary(t *testing.T) {
	if alive := os.Getenv("PROCTEST_ALIVE"); alive != "" {
		// This is the test binary that gets killed.
		fmt.Println("built", proctest.Build(t, "./testdata/hello"))
		proctest.Start(t, sh(`exec 3>"$1"; echo up; exec sleep 100`, alive)).WaitFor("up")
		fmt.Println("ready")
		<-t.Context().Done()
		return
	}
	alive := fifo(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestEndsWithTheTestBinary$")
	cmd.Env = append(os.Environ(), "PROCTEST_ALIVE="+alive)
	p := proctest.Start(t, cmd)
	bin := strings.TrimPrefix(p.WaitFor("built "), "built ")
	require.FileExists(t, bin)
	p.WaitFor("ready")
	p.Kill()
	waitUntilClosed(t, alive)
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Dir(filepath.Dir(bin)))
		return os.IsNotExist(err)
	}, 10*time.Second, time.Millisecond)
}

// fifo returns the path of a pipe: whoever opens it for writing can be waited
// for.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	// Open at once, for reading and without waiting, so that no writer waits.
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return path
}

// waitUntilClosed waits until no process has the fifo open for writing.
func waitUntilClosed(t *testing.T, path string) {
	t.Helper()
	require.Eventually(t, func() bool {
		w, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return false
		}
		defer w.Close()
		_ = w.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err = w.Read(make([]byte, 1))
		return err == io.EOF
	}, 10*time.Second, time.Millisecond)
}

// failing is a TB whose failure is what the test expects.
type failing struct {
	testing.TB
	message, logged string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
func (f *failing) Logf(format string, args ...any) { f.logged += fmt.Sprintf(format, args...) }
func (f *failing) Failed() bool                    { return f.message != "" }

// run calls what is expected to fail.
func (f *failing) run(fn func()) {
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	<-done
}
