package ui_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/perdure/perdure/server/auth"
)

// rows is the number of runs that the list shows.
const rows = "document.querySelectorAll('tbody tr').length"

// tick chooses the run with a workflow ID, or no more.
func (b *browser) tick(id string) {
	b.t.Helper()
	b.click("input[data-tick]", "Choose "+id)
}

// Runs that the reader has ticked are cancelled together. What cannot be cancelled is left out.
//
// spec: B-17, B-8
func TestTickedRunsAreCancelledTogether(t *testing.T) {
	w := begin(t, "")
	w.finish("order", "o1", "DE")
	for i := range 3 {
		w.start("waiting", fmt.Sprint("w", i), "")
	}
	b := browse(w)
	b.open("runs")
	b.until(rows + " === 4")
	b.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("x"))
	b.sees("1 run chosen")
	b.tick("w1")
	b.sees("2 runs chosen")
	b.click("[aria-label='Chosen runs'] button", "Retry")
	b.sees("Retry: none of the chosen runs is failed, timed out or cancelled.")
	b.tick("o1")
	b.click("[aria-label='Chosen runs'] button:not([aria-disabled])", "Cancel")
	b.sees("2 runs will be cancelled: 2 waiting.")
	b.sees("Left out: 1 completed. Only what is open can be cancelled.")
	b.click("dialog form button", "Cancel")
	b.sees("is done. 2 of 2 runs: 2 done")
	b.until("document.querySelector('dialog a[href^=\"batches/\"]')")
	b.click("dialog button", "Close")
	b.until("!document.querySelector('dialog, [aria-label=\"Chosen runs\"]')")
	b.until("[...document.querySelectorAll('tbody tr')].filter(e => " +
		"e.innerText.includes('cancelled')).length === 2")
}

// All runs that meet conditions are acted on together, also those that are not shown. The batch
// can be stopped where it is shown.
//
// spec: B-17, B-8
func TestAllThatMeetTheConditionsAreRetried(t *testing.T) {
	w := begin(t, "")
	for i := range 53 {
		w.finish("order", fmt.Sprint("o", i), "XX")
	}
	w.finish("order", "fine", "DE")
	b := browse(w)
	b.open("runs?workflow=order")
	b.until(rows + " === 50")
	b.click("[aria-label='Choose all that are shown']", "")
	b.sees("50 runs chosen")
	b.click("button", "All that meet the conditions")
	b.sees("All runs that meet the conditions")
	b.click("[aria-label='Chosen runs'] button:not([aria-disabled])", "Retry")
	b.sees("53 runs will be retried: 53 failed.")
	b.sees("status=FAILED,TIMED_OUT workflow=order created<")
	b.fill("dialog input[type=number]", "1")
	b.click("dialog form button", "Retry")
	b.sees("of 53 runs")
	b.fill("dialog input[maxlength]", "the bank is down")
	b.click("dialog form button", "Stop the batch")
	b.until("/is (stopping|stopped)/.test(document.querySelector('dialog').innerText)")
	b.sees("is stopped")
	b.click("dialog a[href^='batches/']", "")
	b.sees("“the bank is down”")
}

// Who may only read is told why nothing can be done.
//
// spec: B-17
func TestAViewerIsToldWhyNothingCanBeDoneWithRuns(t *testing.T) {
	token, hash := auth.NewToken()
	w := begin(t, "", auth.Credential{Name: "vera", Role: auth.Viewer, Hash: hash})
	w.start("waiting", "w1", "")
	b := browse(w, "status of 401")
	b.open("runs")
	b.fill("input[type=password]", token)
	b.click("form button", "Log in")
	b.tick("w1")
	b.click("[aria-label='Chosen runs'] button", "Cancel")
	b.sees("Cancel: needs the role operator.")
}

// The reader chooses which columns there are, in which order, and the browser keeps that.
//
// spec: B-17
func TestTheReaderChoosesTheColumns(t *testing.T) {
	w := begin(t, "")
	w.start("waiting", "w1", "")
	b := browse(w)
	heads := "[...document.querySelectorAll('thead th')].slice(1).map(e => e.innerText).join()"
	usual := heads + " === 'Status,Workflow,ID,Created,Took,Waits for, or failed by'"
	b.open("runs")
	b.until(usual)
	b.click("button", "Columns")
	b.click("dialog label", "Pattern")
	b.click("dialog label", "Took")
	b.click("dialog button", "Pattern further to the front")
	want := heads + " === 'Status,Workflow,ID,Created,Pattern,Waits for, or failed by'"
	b.until(want)
	b.until("document.activeElement.ariaLabel === 'Pattern further to the front'")
	b.do(chromedp.Reload())
	b.until(want)
	b.sees("workflow signal ready")
	b.click("button", "Columns")
	b.click("dialog button", "As at first")
	b.until(usual)
}

// A range of time is part of the address. An empty list names the conditions.
//
// spec: B-17
func TestARangeOfTimeIsInTheAddress(t *testing.T) {
	w := begin(t, "")
	w.start("waiting", "w1", "")
	b := browse(w)
	set := func(label, value string) {
		t.Helper()
		b.script(fmt.Sprintf("{ const e = document.querySelector('[aria-label=%q]'); "+
			"e.value = %q; e.dispatchEvent(new Event('change', {bubbles: true})) }", label, value))
	}
	b.open("runs")
	b.until(rows + " === 1")
	set("Created", "24h")
	b.until("location.search === '?since=24h'")
	b.until(rows + " === 1")
	set("Created", "own")
	b.until("document.querySelector('[aria-label=\"Created before\"]')")
	set("Created before", "2020-05-01T00:00")
	b.until("/until=2020-0[45]-/.test(location.search)")
	set("Created from", "2020-04-01T00:00")
	b.until("/since=2020-0[34]-/.test(location.search)")
	b.until("/until=2020/.test(location.search)")
	b.sees("No run meets these conditions.")
	b.do(chromedp.Reload())
	b.until("document.querySelector('[aria-label=\"Created before\"]').value === " +
		"'2020-05-01T00:00'")
	b.click("button", "Clear them")
	b.until(rows + " === 1")
	b.until("location.search === ''")

	set("Created", "24h")
	b.until("location.search === '?since=24h'")
	set("Created", "own")
	own := "document.querySelector('[aria-label=\"Created before\"]')"
	b.until(own)
	b.click("button", "Clear")
	b.until("!" + own)
	b.until("document.querySelector('[aria-label=Created]').value === ''")
}

// A view is a name for an address. There are some for everybody, and those of the reader.
//
// spec: B-17
func TestViewsOfRuns(t *testing.T) {
	w := begin(t, "")
	w.finish("order", "o1", "XX")
	w.finish("order", "o2", "DE")
	b := browse(w)
	b.open("runs")
	b.until(rows + " === 2")
	b.click("[aria-label=Views] a", "Failed in 24 h")
	b.until(rows + " === 1")
	b.until("document.querySelector('[aria-label=Views] [aria-current]').innerText === " +
		"'Failed in 24 h'")
	for _, name := range []string{"Parked", "Stuck for 1 h", "Open for a day"} {
		b.click("[aria-label=Views] a", name)
		b.sees("No run meets these conditions.")
	}
	b.open("runs?status=COMPLETED")
	b.until(rows + " === 1")
	b.click("button", "Save view")
	b.fill("dialog input", "Well done"+kb.Enter)
	b.click("[aria-label=Views] a", "All")
	b.until(rows + " === 2")
	b.do(chromedp.Reload())
	b.click("[aria-label=Views] a", "Well done")
	b.until("location.search === '?status=COMPLETED'")
	b.until("[...document.querySelectorAll('button')].some(e => e.innerText === 'Copy link')")
	b.click("button", "Forget the view Well done")
	b.do(chromedp.Reload())
	b.sees("Failed in 24 h")
	b.until("!document.body.innerText.includes('Well done')")
}

// Rows stay until those of the next page, or of other conditions, are there.
//
// spec: B-17
func TestRowsStayWhileOthersAreRead(t *testing.T) {
	w := begin(t, "")
	for i := range 55 {
		w.finish("order", fmt.Sprint("o", i), []string{"DE", "XX"}[i%2])
	}
	b := browse(w)
	b.open("runs")
	b.until(rows + " === 50")
	b.script("window.least = 1e9; new MutationObserver(() => { least = Math.min(least, " + rows +
		") }).observe(document.querySelector('main'), {childList: true, subtree: true})")
	b.click("button", "Older runs")
	b.until(rows + " === 55")
	b.click("button.chip", "failed")
	b.until(rows + " === 27")
	b.click("button.chip", "failed")
	b.until(rows + " === 50")
	if n := b.number("least"); n < 27 {
		t.Errorf("for a moment, there were %d rows", n)
	}
}

// Columns do not move when something changes in them, or when the list is paused.
//
// spec: B-17
func TestColumnsStayWhereTheyAre(t *testing.T) {
	w := begin(t, "")
	w.start("waiting", "w1", "")
	b := browse(w)
	b.open("runs")
	b.sees("signal ready")
	places := "[...document.querySelectorAll('thead th')]" +
		".map(e => e.getBoundingClientRect().left).join()"
	before := value(b, chromedp.Evaluate[string](places))
	stay := func(when string) {
		t.Helper()
		if now := value(b, chromedp.Evaluate[string](places)); now != before {
			t.Errorf("%s: columns were at %s and are at %s", when, before, now)
		}
	}
	b.click("button[aria-label^=Pause]", "")
	b.sees("Live updates are paused.")
	stay("paused")
	w.send("w1", "bad")
	b.click("button", "Go on")
	b.sees("the word is bad")
	stay("after the pause")
	w.start("waiting", "a-workflow-id-that-is-much-longer-than-any-before-"+
		strings.Repeat("x", 100), "")
	b.click("button", "1 new, show")
	b.until(rows + " === 2")
	stay("with a long ID")
}

// A script is carried out before the page's own.
type script struct {
	Source string `json:"source"`
}

var atEachPage = cdp.Command[script, cdp.Empty]{Method: "Page.addScriptToEvaluateOnNewDocument"}

// The clock of a browser may be wrong: times are those of the server, and none is negative.
//
// spec: B-17
func TestAClockThatDiffersMakesNoTimeNegative(t *testing.T) {
	w := begin(t, "")
	w.start("waiting", "w1", "")
	for _, by := range []string{"-3600e3", "3600e3"} {
		b := browse(w)
		call(b, atEachPage, script{"{ const D = Date; " +
			"globalThis.Date = class extends D { " +
			"constructor(...a) { a.length ? super(...a) : super(D.now() + " + by + ") } " +
			"static now() { return D.now() + " + by + " } } }"})
		b.open("runs")
		b.sees("signal ready")
		cell := func(name string) string {
			return value(b, chromedp.Evaluate[string](
				"document.querySelector('td.of-"+name+"').innerText"))
		}
		if text := cell("created"); text != "now" && !strings.HasSuffix(text, " s ago") &&
			!strings.HasPrefix(text, "1 min") {
			t.Errorf("by %s: created %q", by, text)
		}
		if text := cell("took"); strings.Contains(text, "-") || strings.Contains(text, "h") ||
			strings.Contains(text, "59 min") {
			t.Errorf("by %s: took %q", by, text)
		}
	}
}

// A page begins at its top. Back shows the rows that were there, where the reader was.
//
// spec: B-17
func TestBackGoesToWhereTheReaderWas(t *testing.T) {
	w := begin(t, "")
	for i := range 70 {
		w.finish("order", fmt.Sprint("o", i), "DE")
	}
	b := browse(w)
	b.open("runs")
	b.until(rows + " === 50")
	b.click("button", "Older runs")
	b.until(rows + " === 70")
	b.tick("o1")
	b.script("scrollTo(0, 1700)")
	b.until("scrollY === 1700")
	b.click("tbody a", "o30")
	b.sees("It has ended well.")
	if n := b.number("scrollY"); n != 0 {
		t.Errorf("the page of a run begins at %d", n)
	}
	b.do(chromedp.NavigateBack())
	b.until(rows + " === 70")
	b.until("scrollY === 1700")
	b.sees("1 run chosen")
	b.do(chromedp.NavigateForward())
	b.sees("It has ended well.")
	b.until("scrollY === 0")
	b.click("nav a", "Runs")
	b.until(rows + " === 50")
	b.until("scrollY === 0")
}

// The dialogs of the list can be used by everybody.
//
// spec: B-17
func TestDialogsOfTheListAreForEverybody(t *testing.T) {
	axe := axe(t)
	w := begin(t, "")
	w.finish("order", "o1", "XX")
	w.start("waiting", "w1", "")
	b := browse(w)
	b.size(320, 640)
	fits := func(what string) {
		t.Helper()
		for _, theme := range []string{"light", "dark"} {
			b.theme(theme)
			b.audit(axe, what+", "+theme)
		}
		if n := b.number("document.documentElement.scrollWidth"); n > 320 {
			t.Errorf("%s: %d pixels wide on a screen of 320", what, n)
		}
		b.picture("runs-" + strings.ReplaceAll(what, " ", "-"))
	}
	b.open("runs?until=2100-01-01T00:00:00Z")
	b.tick("w1")
	b.tick("o1")
	b.sees("2 runs chosen")
	fits("chosen runs")
	b.click("[aria-label='Chosen runs'] button:not([aria-disabled])", "Skip")
	b.sees("1 run will be retried")
	fits("a batch")
	b.click("dialog form button", "Skip")
	b.sees("is done")
	fits("a batch that is done")
	b.click("dialog button", "Close")
	b.click("button", "Columns")
	b.sees("This browser keeps them")
	fits("columns")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.click("button", "Save view")
	b.sees("It is a name for the address")
	fits("a view")
}
