package proctest_test

import (
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reqlock/reqlock/internal/proctest"
)

func TestBuild(t *testing.T) {
	const pkg = "github.com/reqlock/reqlock/internal/proctest/testdata/hello"
	var wg sync.WaitGroup
	bins := make([]string, 4)
	for i := range bins {
		wg.Go(func() { bins[i] = proctest.Build(t, pkg) })
	}
	wg.Wait()
	for _, bin := range bins {
		assert.Equal(t, bins[0], bin, "compiled once")
	}
	p := proctest.Start(t, exec.Command(bins[0]))
	p.WaitFor("hello")
	assert.Equal(t, 0, p.ExitCode())
	other := proctest.Build(t, pkg, "-ldflags=-s")
	assert.NotEqual(t, bins[0], other)
	assert.FileExists(t, other)
}

func TestBuildFails(t *testing.T) {
	tb := &failing{TB: t}
	tb.run(func() { proctest.Build(tb, "./testdata/nothing") })
	assert.Contains(t, tb.message, "proctest: build ./testdata/nothing: exit status 1")
	assert.Contains(t, tb.message, "directory not found")
}
