package proctest

import (
	"os/exec"
	"syscall"
)

// afterTestBinary runs a line of shell, with arg as $1, once this process is
// gone, however it went, unless disarm is called before. The caller must keep
// disarm: with it goes the pipe.
//
// A small sh waits for the end of a pipe that this process alone holds open:
// the kernel closes it even on SIGKILL. Linux' Pdeathsig would be shorter, but
// macOS has none, and it fires when the thread that forked ends rather than
// the process.
func afterTestBinary(script, arg string) (disarm func(), err error) {
	dog := exec.Command("sh", "-c", "read _; "+script, "sh", arg)
	dog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is not for it
	if _, err := dog.StdinPipe(); err != nil {
		return nil, err
	}
	if err := dog.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = dog.Process.Kill()
		_ = dog.Wait() // closes the pipe as well
	}, nil
}
