package peers_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/proctest"
	"github.com/reqlock/reqlock/internal/redistest"
)

// L26: Extend writes, without a lock, the time that Until reads. Whoever renews
// in the background and looks at Until in the foreground needs a mutex of their
// own.
//
// Each half is a program of its own, built with the race detector: a race in
// this process would fail the test that shows it.
func TestHazardUntilIsARace(t *testing.T) {
	const report = "WARNING: DATA RACE"
	run := func(t *testing.T, program string) *proctest.Process {
		server := redistest.Start(t)
		bin := proctest.Build(t, "github.com/reqlock/reqlock/internal/peers/testdata/"+program, "-race")
		return proctest.Start(t, exec.Command(bin, server.Addr()))
	}
	t.Run("redsync", func(t *testing.T) {
		t.Parallel()
		p := run(t, "redsync")
		require.NotZero(t, p.ExitCode())
		assert.Contains(t, p.Output(), report)
		assert.Contains(t, p.Output(), "redsync/v4.(*Mutex).Until()")
	})
	t.Run("redislock", func(t *testing.T) {
		t.Parallel()
		p := run(t, "redislock")
		require.Zero(t, p.ExitCode())
		assert.NotContains(t, p.Output(), report)
	})
}
