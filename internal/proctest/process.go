package proctest

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds what a test waits for: far longer than anything takes, and
// shorter than go test's own timeout, whose report would not say what hung.
const patience = 20 * time.Second

// ErrExited is what [Process.Await] returns when the process ends first.
var ErrExited = errors.New("proctest: the process has exited")

// A Process is a program started by [Start]. Its methods may be called
// concurrently; those that can fail the test must, like [testing.T.FailNow],
// be called from the goroutine that runs it.
type Process struct {
	t   testing.TB
	cmd *exec.Cmd // what each run is a copy of
	out *output

	mu  sync.Mutex
	cur *run
}

// run is one run of the program: Restart begins another.
type run struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once it is reaped and its output read
}

// Start starts the program that cmd describes: its path, arguments,
// environment and directory count, the rest is Start's. The process gets a
// group of its own, and its outputs are collected.
//
// When the test ends, after the cleanups registered later, the process and the
// rest of its group are killed and waited for.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, cmd: cmd, out: newOutput()}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("output of %s:\n%s", cmd, p.Output())
		}
	})
	p.Restart()
	return p
}

// Restart kills the process if it still runs, and starts the program again as
// [Start] did. From then on WaitFor and Await look at the new run's output.
func (p *Process) Restart() {
	p.t.Helper()
	p.Kill()
	p.out.begin()
	r, err := launch(p.cmd, p.out)
	if err != nil {
		p.out.end()
		p.t.Fatalf("proctest: start %s: %v", p.cmd.Path, err)
	}
	p.mu.Lock()
	p.cur = r
	p.mu.Unlock()
}

func launch(like *exec.Cmd, out *output) (*run, error) {
	cmd := exec.Command(like.Path)
	cmd.Args, cmd.Env, cmd.Dir, cmd.Err = like.Args, like.Env, like.Dir, like.Err
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second // a survivor of the group may hold the output open
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &run{cmd: cmd, exited: make(chan struct{})}
	// If the test binary is killed, nobody else ends this process.
	disarm, err := afterTestBinary(`kill -s KILL -- "-$1"`, strconv.Itoa(cmd.Process.Pid))
	if err != nil {
		r.kill()
		_ = cmd.Wait()
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // how it ended is for the test to judge: ExitCode
		disarm()
		out.end()
		close(r.exited)
	}()
	return r, nil
}

// current returns the latest run, nil if the program could not be started.
func (p *Process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cur
}

// Pid returns the process id, which is also that of its process group.
func (p *Process) Pid() int { return p.current().cmd.Process.Pid }

// Output returns what the process has written so far to either output, over
// all its runs, as far as it is kept: the last MiB.
func (p *Process) Output() string { return p.out.String() }

// WaitFor returns the first line of output that contains s, of those already
// written or else the next one, and fails the test if the process exits first
// or none comes.
func (p *Process) WaitFor(s string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	line, err := p.Await(ctx, s)
	if err != nil {
		p.t.Fatalf("proctest: wait for %q from %s: %v", s, p.cmd.Path, err)
	}
	return line
}

// Await is WaitFor for who can go on without the line: it returns [ErrExited]
// or the cause of ctx instead of failing the test.
func (p *Process) Await(ctx context.Context, s string) (string, error) {
	for {
		line, found, ended, more := p.out.find(s)
		switch {
		case found:
			return line, nil
		case ended:
			return "", ErrExited
		}
		select {
		case <-more:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// Exited is closed once the process has ended and its output is complete.
func (p *Process) Exited() <-chan struct{} { return p.current().exited }

// ExitCode waits for the process to end and returns its exit code, -1 if a
// signal ended it. The test fails if the process does not end.
func (p *Process) ExitCode() int {
	p.t.Helper()
	r := p.current()
	select {
	case <-r.exited:
	case <-time.After(patience):
		p.t.Fatalf("proctest: wait for %s: still running", p.cmd.Path)
	}
	return r.cmd.ProcessState.ExitCode()
}

// Kill kills the process and the rest of its group (SIGKILL) and waits until
// it is gone. It works on a paused process and does nothing to an ended one.
func (p *Process) Kill() {
	if r := p.current(); r != nil {
		r.kill()
		<-r.exited
	}
}

// kill reaches children too: those that a redis-server forks to rewrite its
// files would go on writing to a directory about to be removed.
func (r *run) kill() {
	select {
	case <-r.exited: // reaped: the number may be somebody else's by now
	default:
		_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// Pause stops the process (SIGSTOP) without closing its connections, and returns
// when it has stopped, which on a busy machine is later than the signal.
func (p *Process) Pause() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	for deadline := time.Now().Add(patience); !p.stopped(); {
		if time.Now().After(deadline) {
			p.t.Fatalf("proctest: pause %s: it does not stop", p.cmd.Path)
		}
	}
}

func (p *Process) stopped() bool {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(p.Pid())).Output()
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(state)), "T")
}

// Resume continues a paused process (SIGCONT).
func (p *Process) Resume() { p.t.Helper(); p.signal(syscall.SIGCONT) }

// Interrupt asks the process to end (SIGINT), as Ctrl-C does; see ExitCode.
func (p *Process) Interrupt() { p.t.Helper(); p.signal(syscall.SIGINT) }

// Terminate asks the process to end (SIGTERM), as an orchestrator does.
func (p *Process) Terminate() { p.t.Helper(); p.signal(syscall.SIGTERM) }

func (p *Process) signal(sig syscall.Signal) {
	p.t.Helper()
	// os.Process remembers that it was reaped: never a stranger's pid.
	if err := p.current().cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("proctest: send %v to %s: %v", sig, p.cmd.Path, err)
	}
}
