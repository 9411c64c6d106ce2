//go:build browser

package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
)

const noBanner = `document.querySelector("#redis[role=status]").textContent === ""`

// reads is true of a page whose banner reads like that, as a regular expression.
func reads(banner string) string {
	return `/^` + banner + `$/.test(document.querySelector("#redis[role=status] .banner")?.textContent)`
}

func TestPageTellsStatus(t *testing.T) {
	tests := []struct {
		fallback       fallback
		away, keptBack string
	}{
		{fallbackNone, "messages are turned away", "messages wait or are turned away"},
		{fallbackLocal, "this server takes turns for its own messages only", "this server takes turns for its own messages only"},
		{fallbackOpen, "messages are answered without taking turns", "messages are answered without taking turns"},
	}
	for _, tt := range tests {
		t.Run(string(tt.fallback), func(t *testing.T) {
			o := &outage{fallback: tt.fallback}
			page, err := newPage(0, o)
			require.NoError(t, err)
			b := openPage(t, &pod{url: serveTest(t, newHandler(demoModel{}, nil, page))})
			b.until(noBanner)
			o.note(lock.BackendFailed{Err: lock.ErrUnavailable})
			b.until(reads(`Redis cannot be reached \(for \d+ s\): ` + tt.away + `\.`))
			o.note(lock.KeptBack{For: 6 * time.Second})
			o.note(lock.BackendRecovered{})
			b.until(reads(`Redis was restarted and gives nothing out \(for another \d s\): ` + tt.keptBack + `\.`))
			b.until(noBanner)
		})
	}
}

// The time in the banner goes on in its place. What has been there longest is
// told in minutes.
func TestPageCountsInPlace(t *testing.T) {
	o := &outage{fallback: fallbackNone, away: 1, since: time.Now().Add(-117 * time.Second)}
	page, err := newPage(0, o)
	require.NoError(t, err)
	b := openPage(t, &pod{url: serveTest(t, newHandler(demoModel{}, nil, page))})
	b.until(reads(`Redis cannot be reached \(for 11\d s\): messages are turned away\.`))
	b.until(`(window.first = document.querySelector("#redis .banner")) !== null`)
	b.until(reads(`Redis cannot be reached \(for 2 min\): messages are turned away\.`))
	b.until(`document.querySelector("#redis .banner") === window.first`)
}

// A page that is hidden learns nothing, and everything once it is seen.
func TestPageHidden(t *testing.T) {
	o := &outage{fallback: fallbackNone}
	page, err := newPage(0, o)
	require.NoError(t, err)
	asked := make(chan struct{}, 100)
	h := newHandler(demoModel{}, nil, page)
	b := openPage(t, &pod{url: serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if r.URL.Path == statusPath {
			asked <- struct{}{}
		}
	}))})
	receive(t, asked)
	receive(t, asked) // it does so by itself
	setHidden := func(hidden string) {
		b.until(`Object.defineProperty(document, "hidden", { value: ` + hidden + `, configurable: true }) && document.dispatchEvent(new Event("visibilitychange"))`)
	}
	setHidden("true")
	before := len(asked)
	b.until(`(window.start ??= performance.now()) < performance.now() - 5000`)
	assert.LessOrEqual(t, len(asked), before+1) // one may have been on its way
	o.note(lock.BackendFailed{Err: lock.ErrUnavailable})
	setHidden("false")
	b.until(reads(`Redis cannot be reached \(for \d+ s\): messages are turned away\.`))
}

func TestPageTellsOutage(t *testing.T) {
	srv := redistest.Start(t)
	p := startPod(t, "-redis", srv.Addr(), "-model-delay", "0")
	b := openPage(t, p)
	b.say("hello")
	b.until(`document.querySelector(".assistant small").textContent.startsWith("leader: waited")`)
	b.until(noBanner)

	srv.Kill()
	b.say("are you there")
	b.until(`document.querySelectorAll(".assistant small")[1]?.textContent.startsWith("Turned away (503): the lock service is unavailable. Try again in")`)
	b.until(reads(`Redis cannot be reached \(for \d+ s\): messages are turned away\.`))
	assert.NotContains(t, b.texts("#redis")[0], srv.Addr())
	p.WaitFor("backend unavailable")

	srv.Restart()
	// Nobody asks: the Locker finds out by itself.
	b.until(reads(`Redis was restarted and gives nothing out \(for another \d+ s\): messages wait or are turned away\.`))
	b.until(noBanner)
	p.WaitFor("backend available again")
	b.say("and now")
	b.until(`document.querySelectorAll(".assistant small")[2]?.textContent.startsWith("leader: waited")`)
}
