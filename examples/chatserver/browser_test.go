//go:build browser

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A browser is a Chromium of the test's own with the page open.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// openPage fails the test, too, when the page throws, complains to its console
// or breaks its security policy.
func openPage(t *testing.T, p *pod) *browser {
	t.Helper()
	dir := t.TempDir() // removed when the browser is gone
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx,
		chromedp.ExecPath("chromium"),
		chromedp.UserDataDir(dir),
		chromedp.Headless,
		chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.NoFirstRun,
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.WindowSize(1280, 900))
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page threw: %s", e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			t.Errorf("the page called console.%s", e.Type)
		case *cdplog.EventEntryAdded:
			if e.Entry.Source != cdplog.EntrySourceNetwork { // a 429 is one, too
				t.Errorf("the browser complains of the page: %s", e.Entry.Text)
			}
		}
	}))
	b := &browser{t, ctx}
	b.do(chromedp.Navigate(p.url + "/"))
	b.until(`document.querySelectorAll("#models option").length > 0`)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) })
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, steps...))
}

// until waits for an expression to be true of the page.
func (b *browser) until(expression string) {
	b.t.Helper()
	_, err := chromedp.Run(b.ctx, chromedp.Poll[bool](expression))
	require.NoError(b.t, err, expression)
}

// texts returns the texts of all elements that match a selector.
func (b *browser) texts(selector string) []string {
	b.t.Helper()
	texts, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](`[...document.querySelectorAll("`+selector+`")].map((e) => e.textContent)`))
	require.NoError(b.t, err)
	return texts
}

func (b *browser) say(text string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS("#text"), text+"\r"))
}

func TestPageChats(t *testing.T) {
	b := openPage(t, startPod(t))
	b.say("good <b>morning</b>")
	// It grows as it streams, and what was typed is text, not HTML.
	b.until(`document.querySelector(".assistant p").textContent === "Hello alice,"`)
	b.until(`document.querySelector(".assistant small").textContent.startsWith("leader: waited")`)
	assert.Contains(t, b.texts(".assistant p")[0], "you said: “good <b>morning</b>”. That was message 1 of")
	assert.Regexp(t, `^leader: waited \d\.\d\d s, first token after \d\.\d\d s, complete after \d\.\d\d s$`, b.texts(".assistant small")[0])

	// The page sends the conversation along, and another session has its own.
	b.say("and again")
	b.until(`document.querySelectorAll(".assistant p")[1]?.textContent.includes("message 2 of")`)
	b.until(`!document.querySelector("#session").disabled`)
	b.do(chromedp.SendKeys(chromedp.CSS("#session"), "2"))
	assert.Empty(t, b.texts(".assistant p"))
	b.say("hello")
	b.until(`document.querySelector(".assistant p").textContent.includes("message 1 of")`)
}

func TestPageStops(t *testing.T) {
	b := openPage(t, startPod(t, "-model-delay", "1h"))
	b.say("hello")
	b.until(`document.querySelector(".assistant small").textContent === "leader: answering…"`)
	b.do(chromedp.Click(chromedp.CSS("#stop")))
	b.until(`document.querySelector(".assistant small").textContent === "stopped"`)
	b.say("the session is free again")
	b.until(`document.querySelectorAll(".assistant small")[1]?.textContent === "leader: answering…"`)
}

func TestPageTellsErrors(t *testing.T) {
	p := startPod(t, "-model-delay", "1h")
	b := openPage(t, p)
	b.say("hello")
	b.until(`document.querySelector(".assistant small").textContent === "leader: answering…"`)
	p.Kill()
	b.until(`document.querySelector(".assistant small").textContent === "The connection broke in the middle of the answer."`)
	b.say("are you there")
	b.until(`document.querySelectorAll(".assistant small")[1]?.textContent === "The server cannot be reached."`)
}

func TestPageTwoTabs(t *testing.T) {
	const (
		oneWaits  = `document.querySelectorAll(".tab[data-state=answering]").length === 1 && document.querySelectorAll(".tab[data-state=waiting]").length === 1`
		bothRun   = `document.querySelectorAll(".tab[data-state=answering]").length === 2`
		bothDone  = `document.querySelectorAll(".tab[data-state=done]").length === 2`
		oneIsBusy = `document.querySelectorAll(".tab[data-state=done]").length === 1 && document.querySelectorAll(".tab[data-state=refused]").length === 1`
	)
	const shared = "2 answers from 1 run of the model: equal messages share one."
	patient, strict := startPod(t), startPod(t, "-wait", "0")
	tests := []struct {
		name         string
		pod          *pod
		button       string
		during, then string
		roles        []string
		sum          string
	}{
		{"one session waits", patient, "same", oneWaits, bothDone, []string{"leader", "queued"}, "2 answers from 2 runs of the model."},
		{"one session is turned away", strict, "same", `true`, oneIsBusy, []string{"leader"}, "1 answer from 1 run of the model."},
		{"two users do not wait", strict, "users", bothRun, bothDone, []string{"leader", "leader"}, "2 answers from 2 runs of the model."},
		{"one message, twice", patient, "twice", bothRun, bothDone, []string{"joined", "leader"}, shared},
		{"one message, twice, at a server where nobody waits", strict, "twice", bothRun, bothDone, []string{"joined", "leader"}, shared},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := openPage(t, tt.pod)
			b.do(chromedp.Click(chromedp.CSS("[data-race=" + tt.button + "]")))
			b.until(tt.during)
			b.until(tt.then)
			for _, status := range b.texts(".tab[data-state=refused] .status") {
				assert.Regexp(t, `^Turned away \(429\): this session is still busy with another message\. Try again in \d+ s, says the server’s Retry-After\.$`, status)
			}
			var roles []string
			for _, status := range b.texts(".tab[data-state=done] .status") {
				role, _, _ := strings.Cut(status, ":")
				roles = append(roles, role)
				assert.Regexp(t, `^(leader|queued|joined): waited .* s, first token after .* s, complete after .* s$`, status)
			}
			assert.ElementsMatch(t, tt.roles, roles)
			b.until(`document.querySelector("#sum").textContent !== ""`)
			assert.Equal(t, tt.sum, b.texts("#sum")[0])
			if answers := b.texts(".tab .answer"); tt.button == "twice" {
				assert.Contains(t, answers[0], "Hello alice,")
				assert.Equal(t, answers[0], answers[1])
				assert.Equal(t, []string{""}, b.texts(".tab .bar .joined"))
			}
		})
	}
}

func TestPageCrowd(t *testing.T) {
	b := openPage(t, startPod(t, "-wait", "2s"))
	b.do(chromedp.Click(chromedp.CSS("[data-race=crowd]")))
	b.until(`document.querySelectorAll(".tab[data-state=done], .tab[data-state=refused]").length === 5`)
	assert.NotEmpty(t, b.texts(".tab[data-state=done]"))
	assert.NotEmpty(t, b.texts(".tab[data-state=refused]"))
}
