package proctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// builds is what this test binary has compiled. It outlives the tests: what
// the first one built is there for the next, and a link takes seconds.
var builds struct {
	mu   sync.Mutex
	done map[string]func() (string, error)
	// watchdog is kept because its pipe must not be collected, and so closed.
	watchdog any
}

// binDir is where the binaries go. It is removed after the test binary: no
// test knows that it is the last one.
var binDir = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "proctest-")
	if err != nil {
		return "", err
	}
	disarm, err := afterTestBinary(`rm -rf -- "$1"`, dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", err
	}
	builds.watchdog = disarm
	return dir, nil
})

// Build compiles the main package with the import path pkg and returns the
// path of the binary. Flags, as in "-race", are those of go build. Each pkg
// with its flags is compiled once per test binary; concurrent calls wait for
// the one that compiles. The binary is removed when the test binary ends.
func Build(t testing.TB, pkg string, flags ...string) string {
	t.Helper()
	key := strings.Join(append([]string{pkg}, flags...), "\x00")
	builds.mu.Lock()
	build := builds.done[key]
	if build == nil {
		if builds.done == nil {
			builds.done = make(map[string]func() (string, error))
		}
		n := len(builds.done)
		build = sync.OnceValues(func() (string, error) { return compile(n, pkg, flags) })
		builds.done[key] = build
	}
	builds.mu.Unlock()
	bin, err := build()
	if err != nil {
		t.Fatalf("proctest: build %s: %v", pkg, err)
	}
	return bin
}

func compile(n int, pkg string, flags []string) (string, error) {
	dir, err := binDir()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, fmt.Sprint(n), filepath.Base(pkg))
	args := append([]string{"build", "-o", bin}, flags...)
	if out, err := exec.Command("go", append(args, pkg)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return bin, nil
}
