package ui_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A graph shows what failed first, and what was not done because of it. Keys go from node to node.
//
// spec: B-17
func TestTheGraphOfARun(t *testing.T) {
	w := begin(t, "")
	run := w.finish("delivery", "p-1", Parcel{Full: true})
	b := browse(w)
	b.open("runs/" + run)
	b.sees("Root cause It began at load: the van is full Not done because of it: send, notify.")
	b.until(`document.querySelector('.node.dim[title^="wrap: skipped"]').innerText` +
		`.includes('if input.gift == true')`)
	b.until(`document.querySelector('.node.dim[title^="send: not done"]')`)
	b.until(`document.querySelector('.node.critical[title*="critical path"]')`)
	b.script(`document.querySelector('.node[tabindex="0"]').focus()`)
	for _, key := range []string{kb.ArrowRight, kb.ArrowRight, kb.Enter} {
		b.do(chromedp.KeyEvent(key))
	}
	b.until("location.search === '?node=load'")
	b.sees("load step failed")
	b.click("label", "as a table")
	b.until("document.querySelector('[aria-labelledby=graph-title] tbody tr td button')")
	b.sees("because of load")
	b.do(chromedp.Reload())
	b.sees("because of load")
}

// A graph that does not fit has a map, which is right in the dark, too.
//
// spec: B-17
func TestALargeGraphHasAMap(t *testing.T) {
	w := begin(t, "")
	run := w.finish("wide", "w-1", 1)
	b := browse(w)
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme)
		b.open("runs/" + run)
		b.until("document.querySelectorAll('.map .dot').length === 121")
		look := "getComputedStyle(document.querySelector('.map"
		b.until("document.querySelectorAll('.node').length < 121")
		b.until(look + "')).backgroundColor === getComputedStyle(document.querySelector(" +
			"'.card')).backgroundColor")
		b.until(look + " .dot')).fill !== " + look + "')).backgroundColor")
	}
	b.click("[aria-label=Zoom] button", "fit")
	b.until("!document.querySelector('.map')")
	b.until("document.querySelectorAll('.node').length === 121")
	b.click("[aria-label=Zoom] button", "Zoom in")
	b.until("document.querySelector('.map')")
	b.script(`document.querySelector('.node[tabindex="0"]').focus()`)
	b.do(chromedp.KeyEvent(kb.End))
	b.until(`document.activeElement.title.startsWith('row-9-step-11')`)
}

// An operator decides about an undo that has failed, where the saga shows it.
//
// spec: B-17
func TestAnUndoThatHasFailedIsDecidedInItsLane(t *testing.T) {
	w := begin(t, "")
	run := w.start("trip", "t-1", "nowhere")
	b := browse(w)
	b.open("runs/" + run)
	b.sees("undo failed: needs you the bank is closed")
	b.sees("mail not done because of hotel")
	b.click("[aria-label^=Decide] button", "Mark handled")
	b.sees("It counts as undone")
	b.fill("dialog input", "by hand")
	b.click("dialog button.main", "Mark handled")
	b.sees("undo charge compensated")
	b.sees("undo flight compensated")
	b.sees("2 steps are undone")
}

// A TCC has a row for each participant, and marks one of which nobody knows how it stands.
//
// spec: B-17
func TestTheParticipantsOfATCC(t *testing.T) {
	w := begin(t, "")
	good, bad := w.finish("transfer", "c-1", 5), w.finish("transfer", "c-2", 113)
	b := browse(w)
	b.open("runs/" + good)
	b.until("document.querySelectorAll('[aria-labelledby=tcc-title] .good').length === 4")
	b.open("runs/" + bad)
	b.sees("debit in doubt its cancel has failed")
	b.sees("It began at try:credit")
}

// A machine shows where the run is, how often it was there, and the way that it has taken.
//
// spec: B-17
func TestTheStatesOfAMachine(t *testing.T) {
	w := begin(t, "")
	run := w.start("ticket", "m-1", "hi")
	w.send("m-1", "again") // the steps after it begin in one millisecond
	b := browse(w)
	b.open("runs/" + run)
	b.until(`document.querySelector('.node.current[title^="open: waiting, 2 visits"]')`)
	b.until(`document.querySelector('.node[title^="search: done, 2 visits"]')`)
	b.until("document.querySelectorAll('.line.strong').length === 4")
	b.click(".node", "open")
	b.sees("open[2]")
	b.open("workflows/ticket")
	b.until("document.querySelectorAll('.node').length === 5")
}

// A run whose child's child has failed names that one, and has its messages in lanes.
//
// spec: B-17
func TestTheRootCauseIsInAChild(t *testing.T) {
	w := begin(t, "")
	run := w.start("parent", "f-1", Parcel{Full: true})
	b := browse(w)
	b.open("runs/" + run)
	b.sees("waits for signal ready")
	w.send("f-1", "go")
	b.sees("at load: the van is full")
	b.sees("event parcel.asked")
	b.sees("child middle has ended")
	b.click("[aria-labelledby=cause-title] a", "delivery")
	b.sees("It began at load")
}

// The views can be used by everybody, on a small screen too.
//
// spec: B-17
func TestTheViewsAreForEverybody(t *testing.T) {
	axe := axe(t)
	w := begin(t, "")
	b := browse(w)
	for _, page := range []struct{ path, sees, name string }{
		{"runs/" + w.finish("delivery", "p-1", Parcel{Full: true}) + "?node=load",
			"step failed", "graph"},
		{"runs/" + w.finish("wide", "w-1", 1), "critical path", "wide"},
		{"runs/" + w.start("trip", "t-1", "nowhere"), "needs you", "saga"},
		{"runs/" + w.finish("transfer", "c-2", 113), "in doubt", "tcc"},
		{"runs/" + w.start("ticket", "m-1", "hi"), "Double border", "machine"},
		{"workflows/ticket?graph=table", "triage (split)", "definition"},
	} {
		for _, theme := range []string{"light", "dark"} {
			b.size(1280, 1500)
			b.theme(theme)
			b.open(page.path)
			b.sees(page.sees)
			b.audit(axe, page.path+", "+theme)
			if theme == "light" {
				b.picture("view-" + page.name)
			}
		}
		b.size(320, 1800)
		b.open(page.path)
		b.sees(page.sees)
		if n := b.number("document.documentElement.scrollWidth"); n > 320 {
			t.Errorf("%s: %d pixels wide on a screen of 320", page.path, n)
		}
		b.picture("view-" + page.name + "-320")
	}
}
