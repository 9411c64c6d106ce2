package locktest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/reqlock/reqlock/middleware/locktest"
)

func TestMain(m *testing.M) {
	if faultOfThisProcess() != "" {
		os.Exit(m.Run())
	}
	goleak.VerifyTestMain(m)
}

const faultVariable = "LOCKTEST_FAULT"

func faultOfThisProcess() string { return os.Getenv(faultVariable) }

// What the suite must find, and the obligation that must be the one to fail.
var faults = []struct{ fault, broken string }{
	{"nobody is excluded", "holders of a key never overlap"},
	{"each process has a backend of its own", "holders in two processes never overlap"},
	{"one lock for all keys", "different keys do not wait for each other"},
	{"there is no renewal", "a lease outlives its TTL"},
	{"there is no renewal", "a lease outlives its TTL for another process"},
	{"keys are cut to 16 bits", "thousands of keys"},
	{"keys are made valid UTF-8", "any bytes are a key of their own"},
	{"an empty key is a key", "an empty key is refused"},
	{"options are not checked", "bad options are refused"},

	{"a try waits", "a try is answered at once"},
	{"a try waits", "a try is answered at once by another process"},
	{"nobody is excluded", "of many tries at once one wins"},
	{"each process has a backend of its own", "of many tries in two processes at once one wins"},
	{"a try waits", "a try neither queues nor overtakes"},
	{"a try overtakes", "a try neither queues nor overtakes"},
	{"a wait takes too long", "a wait ends in time"},
	{"a wait takes too long", "a wait for another process ends in time"},
	{"a wait is capped by the TTL", "L24: a wait may be longer than the TTL"},
	{"a wait is capped by the TTL", "a wait for another process may be longer than the TTL"},
	{"the last comes first", "waiters are served in order of arrival"},
	{"the queue has no bound", "a full queue is told at once"},

	{"a done context is busy", "a done context is not busy"},
	{"the cause is not told", "a done context is not busy"},
	{"a cancelled waiter is busy", "a waiter that is cancelled leaves at once"},
	{"who leaves keeps its place", "a waiter that is cancelled leaves at once"},
	{"a contender is deaf", "a waiter for another process that is cancelled leaves at once"},
	{"a cancelled waiter is busy", "a deadline ends the wait"},
	{"a cancelled acquire stays held", "a cancel at any moment leaves nothing held"},
	{"who leaves as its turn comes keeps it", "a cancel as the turn comes loses no turn"},
	{"a cancelled acquire stays held", "a cancel as another process releases loses no turn"},
	{"a try ends with another", "a try that is cancelled harms no other"},

	{"the lease is not in its context", "the lease is found in its context"},
	{"the context is no child", "the context is a child"},
	{"the context is no child", "the end of the parent passes through"},
	{"the parent's end releases", "the end of the parent passes through"},
	{"release does not end the context", "release ends the context and frees the key"},
	{"a second release frees the next one's key", "release twice is release once"},
	{"each release passes the turn", "release by many is release once"},
	{"a done context is not released", "release with a done context"},
	{"fences repeat", "fences rise"},
	{"fences are counted in the process", "fences rise across processes"},
	{"fences start again after a loss", "fences rise across loss"},
	{"renewal is not stopped", "nothing is left running"},

	{"a lost lease is taken again", "a lost lease ends its context"},
	{"a lost lease keeps its turn", "a lost lease is free for the next"},
	{"a lost lease is released without a word", "release tells that the lease ran out"},
	{"expired is told as stolen", "release tells that the lease ran out"},
	{"stolen is told as expired", "release tells that the lease was stolen"},
	{"release deletes whatever is there", "release tells that the lease was stolen"},
	{"a stolen lease goes on", "a stolen lease ends its context"},

	{"an interrupt never arrives", "an interrupt ends the context and nothing else"},
	{"an interrupt takes the key away", "an interrupt ends the context and nothing else"},
	{"an interrupt stays in its process", "an interrupt reaches another process"},
	{"an interrupt of a free key is told as done", "an interrupt of a free key does nothing"},
	{"an interrupt ends the waits", "an interrupt spares those who wait"},
	{"an interrupt is for the key", "an interrupt by another process spares the next holder"},

	{"away is busy", "a backend that is away is not busy"},
	{"away is waited out", "a backend that is away is not busy"},
	{"a call hangs while the backend is away", "a backend that is away does not hold up a cancelled caller"},
	{"a failure is the head's alone", "a backend that goes away ends the wait"},
	{"a lease outlives an outage", "a backend that is away ends the lease"},
	{"a failed release is forgotten", "a release while the backend is away is made up for"},
}

// A suite that cannot fail is worth nothing: every obligation fails for a
// Locker that breaks it.
func TestFaults(t *testing.T) {
	results := make([]result, len(faults))
	var wg sync.WaitGroup
	running := make(chan struct{}, 12) // they mostly wait
	for i, f := range faults {
		wg.Go(func() {
			running <- struct{}{}
			defer func() { <-running }()
			results[i] = runSuite(t.Context(), f.fault, f.broken)
		})
	}
	wg.Wait()

	covered := make(map[string]bool)
	for i, f := range faults {
		covered[f.broken] = true
		t.Run(f.fault+" – "+f.broken, func(t *testing.T) {
			out, err := results[i].out, results[i].err
			_, failed := errors.AsType[*exec.ExitError](err)
			require.True(t, failed, "passes: %v\n%s", err, out)
			assert.Contains(t, out, "--- FAIL: TestSuite/"+subtest(f.broken))
			assert.NotContains(t, out, "panic:")
		})
	}
	for _, name := range locktest.Obligations() {
		assert.True(t, covered[name], "no fault shows that %q can fail", name)
	}
}

// A fence of 0 says that there is none, and is no fault.
func TestNoFence(t *testing.T) {
	for _, name := range []string{"fences rise", "fences rise across processes", "fences rise across loss"} {
		r := runSuite(t.Context(), "there are no fences", name)
		require.NoError(t, r.err, r.out)
		require.Contains(t, r.out, "--- PASS: TestSuite/"+subtest(name))
	}
}

type result struct {
	out string
	err error
}

// runSuite runs one obligation for a toy with a fault, in a child process: a
// subtest that fails in this one would fail its parents.
func runSuite(ctx context.Context, fault, obligation string) result {
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.v", "-test.timeout=2m", "-test.run=^TestSuite$/^"+subtest(obligation)+"$")
	cmd.Env = append(os.Environ(), faultVariable+"="+fault)
	out, err := cmd.CombinedOutput()
	return result{string(out), err}
}

func subtest(name string) string { return strings.ReplaceAll(name, " ", "_") }
