package ui_test

import (
	"errors"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/store"
)

// A count that is cut off says so, where it is a filter, too.
//
// spec: B-17
func TestACountThatIsCutOffSaysSo(t *testing.T) {
	if testing.Short() {
		t.Skip("10,001 runs take seconds")
	}
	w := begin(t, "")
	client, err := perdure.NewClient(t.Context(), w.db)
	if err != nil {
		t.Fatal(err)
	}
	inputs := make([][]byte, store.MaxCounted+1)
	for i := range inputs {
		inputs[i] = []byte("1")
	}
	// No engine has the workflow, so all of them stay pending.
	if _, errs := client.StartAll(t.Context(), "lost", inputs, nil); errors.Join(errs...) != nil {
		t.Fatal(errors.Join(errs...))
	}
	b := browse(w)
	for _, page := range []string{"", "runs", "runs?workflow=lost"} {
		b.open(page)
		b.until("document.querySelector('.chips')?.innerText.includes('10,000+')")
	}
}

// While a TCC tries, the time until it is cancelled is counted down.
//
// spec: B-17
func TestTheTimeOfATCCIsCountedDown(t *testing.T) {
	w := begin(t, "")
	run := w.start("transfer", "c-1", endless)
	b := browse(w)
	b.open("runs/" + run)
	b.sees("cancelled in 59 min")
	const text = "document.querySelector('[aria-labelledby=tcc-title] .head .status').innerText"
	before := value(b, chromedp.Evaluate[string](text))
	b.until(text + " < " + strconv.Quote(before))
	b.sees("if not all have tried")
}

// adapts checks what is shown in both themes and on a small screen.
func (b *browser) adapts(axe, what string) {
	b.t.Helper()
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme)
		b.audit(axe, what+", "+theme)
	}
	if n := b.number("document.documentElement.scrollWidth"); n > 320 {
		b.t.Errorf("%s: %d pixels wide on a screen of 320", what, n)
	}
}

// The dialogs of operations and the form behind a link can be used by everybody.
//
// spec: B-17
func TestDialogsOfOperationsAreForEverybody(t *testing.T) {
	axe := axe(t)
	w := begin(t, "")
	w.schedule("hourly", schedule.Spec{Every: 10 * time.Hour})
	w.limit("waiting", 5)
	w.alert("waiting")
	w.fail("word-1")
	w.fail("word-2")
	w.start("waiting", "open-1", "")
	w.start("waiting", "open-2", "")
	bulk := w.batch(batch.Spec{Filter: "workflow=waiting open", Rate: 0.001, Order: admin.Order{
		Action: journal.ActionCancel, By: "ada", Reason: "the bank is down",
	}})
	w.start("discount", "d1", "")
	b := browse(w)
	b.size(320, 640)
	const any = "button:not([aria-disabled])" // it is known who the reader is
	const acts = "[aria-label=Actions] " + any
	for _, dialog := range []struct{ path, selector, part, sees string }{
		{"schedules", any, "New schedule", "Create"},
		{"schedules/hourly", acts, "Change", "the next times are"},
		{"schedules/hourly", acts, "Backfill", "times have not started a run"},
		{"schedules/hourly", acts, "Run now", "Run now"},
		{"schedules/hourly", acts, "Delete", "Delete"},
		{"limits", any, "Set a limit", "Set a limit"},
		{"limits", any, "Set limit waiting", "Set limit waiting"},
		{"limits", any, "Reset limit waiting", "Reset"},
		{"alerts", any, "Set alerts", "Ends that count"},
		{"alerts", any, "Test the alerts of waiting", "Send the test"},
		{"dead-letters", any, "Retry all 2", "2 runs will be retried"},
		{"dead-letters", "tbody " + any, "Handle", "Mark as handled"},
		{"batches/" + bulk, any, "Stop", "Stop"},
	} {
		b.open(dialog.path)
		b.click(dialog.selector, dialog.part)
		b.until("document.querySelector('dialog[open]')?.innerText.includes(" +
			strconv.Quote(dialog.sees) + ")")
		b.adapts(axe, dialog.path+": "+dialog.part)
		b.do(chromedp.KeyEvent(kb.Escape))
	}
	b.open("runs/d1")
	b.sees("30 % for order 1001")
	token, err := approval.Token(t.Context(), w.engine, "d1", "boss",
		approval.Decision{Approved: true, By: "gina", Role: "manager"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	b.open("decide#" + token)
	b.sees("You decide as gina")
	b.adapts(axe, "the form behind a link")
	b.click("form button", "Approve")
	b.sees("You have approved it")
	b.adapts(axe, "the decision that is made")
}

// An ID may have any character, also those that mean something in an address.
//
// spec: B-17
func TestAnIDMayHaveAnyCharacter(t *testing.T) {
	w := begin(t, "/some/prefix")
	for _, id := range []string{"50%", "a%2Fb", "a/b", "ü?#"} {
		w.start("waiting", id, "")
	}
	b := browse(w)
	for _, id := range []string{"50%", "a%2Fb", "a/b", "ü?#"} {
		b.open("runs/" + url.PathEscape(id))
		b.until("document.title === " + strconv.Quote("Run "+id+" · Perdure"))
		b.sees("It waits for signal ready.")
	}
}

// The first link of a page leads to its content, and the page stays.
//
// spec: B-17
func TestTheReaderSkipsToTheContent(t *testing.T) {
	w := begin(t, "/some/prefix")
	b := browse(w)
	b.open("runs?status=FAILED")
	b.sees("No run meets these conditions")
	b.script("document.querySelector('a.skip').click()")
	b.until("document.activeElement.id === 'main' && location.search === '?status=FAILED'")
}
