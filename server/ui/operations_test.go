package ui_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/server/auth"
)

// fail makes a run end by a step that fails for good, and waits for its dead letter.
func (w *world) fail(id string) string {
	w.t.Helper()
	run := w.start("waiting", id, "")
	w.send(id, "bad")
	one, err := w.engine.Get(w.t.Context(), run)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := one.Result(w.t.Context()); err == nil {
		w.t.Fatal("the run has not failed")
	}
	return run
}

// limit sets how many runs of a workflow go on at a time.
func (w *world) limit(workflow string, n int) {
	w.t.Helper()
	err := admin.New(w.engine).SetLimit(w.t.Context(), workflow, limit.Bounds{Concurrency: &n},
		admin.Note{By: "ada"})
	if err != nil {
		w.t.Fatal(err)
	}
}

// alert sets whom to alert about a workflow, and sends a test.
func (w *world) alert(workflow string) {
	w.t.Helper()
	err := alert.Set(w.t.Context(), w.engine, workflow, alert.Rule{
		Times: 5, Within: time.Hour, To: []string{"mailto:ops@example.com"},
	}, admin.Note{By: "ada", Reason: "the bank is slow"})
	if err == nil {
		_, err = alert.Test(w.t.Context(), w.engine, workflow)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// spec: B-17, R-40
func TestDeadLetters(t *testing.T) {
	w := begin(t, "")
	b := browse(w, "status of 404")
	b.open("dead-letters")
	b.sees("There are no dead letters")
	for i := range 4 {
		w.fail(fmt.Sprint("word-", i))
	}
	b.sees("4 dead letters by their errors")
	b.until("document.querySelector('td.count')?.innerText === '4'")
	b.sees("4 in all.")

	b.click("tbody a", "word-1")
	b.sees("Input of the run")
	b.sees("Step judge")
	b.click("button", "Handle")
	b.fill("dialog label input", "written by hand")
	b.click("dialog form button", "Mark as handled")
	b.until("location.pathname === '/dead-letters'")
	b.sees("3 in all.")
	b.script("const s = document.querySelector('[aria-label=Which]'); s.value = 'yes'; " +
		"s.dispatchEvent(new Event('change', {bubbles: true}))")
	b.until("location.search === '?handled=yes'")
	b.sees("written by hand")
	b.open("dead-letters?error=the+word+is+bad")
	b.until("document.querySelectorAll('tbody tr').length === 3")
	b.sees("Show all errors")

	b.click("tbody tr:first-child button", "Delete")
	b.click("dialog form button", "Delete")
	b.until("document.querySelectorAll('tbody tr').length === 2")
	b.click("tbody tr:first-child button", "Retry")
	b.click("dialog form button", "Retry")
	b.until("location.pathname.startsWith('/runs/')")
	b.sees("retry of")
}

// All runs that have failed by one error are retried by a batch.
//
// spec: B-17, R-40
func TestAGroupOfDeadLettersIsRetried(t *testing.T) {
	w := begin(t, "")
	for i := range 3 {
		w.fail(fmt.Sprint("word-", i))
	}
	b := browse(w)
	b.open("dead-letters")
	b.click("button", "Retry all 3")
	b.sees("3 runs will be retried: 3 failed.")
	b.until("document.querySelectorAll('#plan li').length === 3")
	b.click("dialog form button", "Retry")
	b.sees("3 of 3 runs: 3 done")
	b.click("dialog button", "Close")
	b.until("document.querySelector('tbody [data-label=retries]')?.innerText.includes('1')")
}

// spec: B-17, R-40
func TestASignalWithoutARunIsDelivered(t *testing.T) {
	w := begin(t, "")
	w.send("nobody", "hello")
	w.start("waiting", "somebody", "")
	if err := w.gateway.Signal("word.said", "ready", bus.Route{}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"word.said", "word.lost", "word.lost"} {
		e := event.Event{ID: kind, Source: "test", Type: kind, Subject: "someone", Data: []byte(`"a"`)}
		if err := w.gateway.On(t.Context(), w.engine.Client, e); err != nil {
			t.Fatal(err)
		}
	}
	b := browse(w)
	b.open("signals")
	b.sees("ready for nobody")
	b.sees(`"hello"`)
	b.sees("word.said is sent to a run as signal ready")
	b.until("document.querySelector('[data-label=came]').innerText.endsWith('1')")
	b.sees("2 events had a type that nothing is registered for")
	b.click("button", "Deliver ready for nobody")
	b.fill("dialog label input", "somebody")
	b.click("dialog form button", "Deliver")
	b.until("location.pathname === '/runs/somebody'")
	b.until("document.querySelector('.status').innerText.includes('completed')")
	b.open("signals")
	b.until("!document.body.innerText.includes('nobody') && " +
		"document.body.innerText.includes('for someone')")
}

// spec: B-17, R-40
func TestLimits(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	b.open("limits")
	b.sees("No limit is set")
	b.click("button", "Set a limit")
	b.fill("dialog input[list]", "waiting")
	b.fill("dialog input[name=concurrency]", "2")
	b.fill("dialog label:last-of-type input", "the bank has few lines")
	b.click("dialog form button", "Set")
	b.sees("Set to 2 runs at a time")
	b.sees("“the bank has few lines”")
	for i := range 3 {
		w.start("waiting", fmt.Sprint("held-", i), "")
	}
	b.sees("2 of 2 runs at a time, 1 in line")
	b.click("button", "Who")
	b.until("document.querySelectorAll('[aria-label=\"Runs that have it\"] a').length === 2")
	b.until("document.querySelector('[aria-label=\"Runs in line\"]')?.innerText" +
		".includes('1. waiting held-2')")

	b.click("button", "Set limit waiting")
	b.until("document.querySelector('dialog input[name=concurrency]').value === '2'")
	b.fill("dialog input[name=concurrency]", "3")
	b.click("dialog form button", "Set")
	b.sees("3 of 3 runs at a time")
	b.click("button", "Reset limit waiting")
	b.click("dialog form button", "Reset")
	b.sees("The numbers are those of the code")
	b.click("button", "Reset limit waiting")
	b.sees("Reset: no operator has set it.")
}

// spec: B-17, R-40
func TestAlerts(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	b.open("alerts")
	b.sees("No rule is set: nobody is alerted.")
	b.sees("None was sent.")
	b.click("button", "Set alerts")
	b.fill("dialog input[list]", "waiting")
	b.fill("dialog textarea", "https://hooks.invalid/x mailto:ops@example.com")
	b.click("dialog input[value=ended]", "")
	b.click("dialog input[value=TIMED_OUT]", "")
	b.fill("dialog input[name=times]", "5")
	b.fill("dialog input[name=within]", "10m")
	b.script("navigator.clipboard.writeText = async text => { window.copied = text }")
	b.click("dialog button", "copy as CLI")
	b.until("window.copied?.startsWith(\"perdure alerts set waiting --causes ended " +
		"--statuses TIMED_OUT --times 5 --within 10m --to https://hooks.invalid/x,mailto:ops@example.com " +
		"--reason 'from the dashboard' \")")
	b.click("dialog form button", "Set")
	b.sees("a run ends as timed out: 5 of them within 10m0s")
	b.sees("mailto:ops@example.com")
	b.click("button", "Set alerts")
	b.fill("dialog input[list]", "waiting")
	b.fill("dialog textarea", "mailto:ada@example.com")
	b.sees("There is a rule for waiting")
	b.until("document.querySelector('dialog form button.main').disabled")
	b.click("dialog button", "Do nothing")

	b.click("button", "Set alerts of waiting")
	b.until("document.querySelector('dialog input[value=ended]').checked")
	b.click("dialog input[value=ended]", "")
	b.fill("dialog input[name=times]", "0")
	b.script("window.copied = ''")
	b.click("dialog button", "copy as CLI")
	b.until("window.copied.includes(\" --causes '' --statuses TIMED_OUT --times 0 --within 0 " +
		"--to https\")")
	b.click("dialog form button", "Set")
	b.sees("a dead letter is new")
	b.click("button", "Silence of waiting")
	b.click("dialog form button", "Silence")
	b.sees("never: it is silent")
	b.click("button", "Test the alerts of waiting")
	b.sees("Sends a test to https://hooks.invalid/x, mailto:ops@example.com.")
	b.click("dialog form button", "Send the test")
	b.until("document.querySelectorAll('[aria-labelledby=sent] a').length === 2")
	b.click("button", "End the silence of waiting")
	b.click("dialog form button", "End the silence")
	b.sees("a run ends as timed out")
	b.click("button", "Reset alerts of waiting")
	b.click("dialog form button", "Reset")
	b.sees("No rule is set: nobody is alerted.")
}

// spec: B-17, R-40
func TestAWorkflowIsPaused(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	b.open("workflows/long")
	b.click("button", "Pause long")
	b.fill("dialog label input", "the bank is closed")
	b.click("dialog form button", "Pause")
	b.sees("“the bank is closed”")
	b.open("limits")
	b.sees("long is paused")
	b.open("workflows")
	b.sees("long is paused")
	b.click("button", "Pause all workflows")
	b.click("dialog form button", "Pause")
	b.sees("All workflows are paused")
	b.click("button", "Resume all workflows")
	b.click("dialog form button", "Resume")
	b.until("!document.body.innerText.includes('All workflows are paused')")
	b.open("workflows/long")
	b.click("button", "Resume long")
	b.click("dialog form button", "Resume")
	b.until("!document.body.innerText.includes('the bank is closed')")
	if all, err := admin.New(w.engine).Pauses(t.Context()); err != nil || len(all) > 0 {
		t.Error(all, err)
	}
}

// spec: B-17, R-40
func TestWorkers(t *testing.T) {
	w := begin(t, "")
	client, err := perdure.NewClient(t.Context(), w.db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Start(t.Context(), "lost", nil); err != nil {
		t.Fatal(err)
	}
	b := browse(w)
	b.open("workers")
	b.sees("No engine has one workflow")
	b.sees("lost 1 open run waits")
	b.until("document.querySelector('tbody .status').innerText.includes('alive')")
	b.until("document.querySelector('[data-label=heartbeat] time')")
	b.click("tbody button", "workflows")
	b.click("tbody li a", "order")
	b.until("location.pathname === '/workflows/order'")
}

// A viewer sees what the pages show, and why it may do nothing.
//
// spec: B-17, B-18
func TestAViewerOnlyLooks(t *testing.T) {
	token, hash := auth.NewToken()
	w := begin(t, "", auth.Credential{Name: "vera", Role: auth.Viewer, Hash: hash})
	w.limit("long", 1)
	b := browse(w, "status of 401")
	b.open("limits")
	b.fill("input[type=password]", token)
	b.click("form button", "Log in")
	b.click("button", "Set limit long")
	b.sees("Set: needs the role operator.")
	b.until("!document.querySelector('dialog')")
	n := b.number("document.querySelectorAll('main button:not([aria-disabled])').length")
	if n > 0 {
		t.Errorf("%d buttons of actions can be used", n)
	}
}

// The commands that a dialog shows do the same as its button.
//
// spec: B-17, R-41
func TestADialogShowsItsCommands(t *testing.T) {
	w := begin(t, "/ops")
	b := browse(w)
	b.open("workflows/long")
	b.click("button", "Pause long")
	b.script("navigator.clipboard.writeText = async text => { window.copied = text }")
	b.fill("dialog label input", "it's late")
	b.click("dialog button", "copy as CLI")
	b.until("window.copied")
	const want = `perdure workflows pause long --reason 'it'\''s late' --store `
	if got := value(b, chromedp.Evaluate[string]("window.copied")); !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	b.script("window.copied = ''")
	b.click("dialog button", "copy as curl")
	b.until("window.copied")
	got := value(b, chromedp.Evaluate[string]("window.copied"))
	_, address, _ := strings.Cut(got, "-X PUT ")
	address = strings.Trim(address, "'")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address, nil)
	if err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(got, answer, err)
	}
	_ = answer.Body.Close()
	b.sees("“it's late”")
}
