// Package proctest runs other programs for the length of a test.
//
// [Start] starts a command and kills it, with what it has started itself, when
// the test ends, or when the test binary is killed (by its -timeout, by
// Ctrl-C) before it can clean up. Its output is kept and logged if the test
// fails. [Build] compiles a main package once per test binary.
//
//	bin := proctest.Build(t, "github.com/reqlock/reqlock/examples/chatserver")
//	pod := proctest.Start(t, exec.Command(bin, "-listen", "127.0.0.1:0"))
//	line := pod.WaitFor("listening on") // the whole line
//	pod.Kill()                          // kill -9
//
// It needs a Unix: signals, process groups and sh.
package proctest
