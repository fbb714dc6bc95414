package ui_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/store/memory"
)

// Somebody who has read nothing starts a run from a form, approves it and sees it end.
//
// spec: B-17, B-16
func TestTheFirstMinute(t *testing.T) {
	b := browse(begin(t, ""))
	b.open("")
	b.sees("There are no runs yet")
	b.click("main a", "Start one")
	b.click("main a", "expense")
	b.sees("Pays an expense")
	b.fill("form label:nth-of-type(1) input", "ada")
	b.fill("input[type=number]", "4200")
	b.click("form button", "Start")
	b.sees("It waits for approval manager")
	b.sees("ada wants money back")
	b.click("nav a", "Approvals")
	b.sees("ada wants money back")
	b.click("main a", "expense-")
	b.fill("article form input", "well deserved")
	b.click("article button", "Approve")
	b.sees("It has ended well.")
	b.sees("Output")
	b.click("nav a", "Runs")
	b.sees("1 completed")
	b.click("main td a", "expense-")
	b.sees("It has ended well.")
}

// An address shows the same whoever opens it, also behind a prefix; back goes back.
//
// spec: B-17
func TestAnAddressIsAPageUnderAnyPrefix(t *testing.T) {
	w := begin(t, "/ops/perdure")
	run := w.finish("order", "o1", "XX")
	w.finish("order", "o2", "DE")
	b := browse(w, "status of 404")
	b.open("runs/" + run + "?view=full")
	b.sees("It failed at step ship: the carrier does not go there")
	b.sees("2 steps are undone.")
	b.sees("compensation started")
	b.do(chromedp.Reload())
	b.sees("compensation started")
	b.click("nav a", "Runs")
	b.sees("1 failed")
	b.click("button.chip", "failed")
	b.until("location.search === '?status=FAILED'")
	b.until("document.querySelectorAll('tbody tr').length === 1")
	b.do(chromedp.NavigateBack())
	b.until("document.querySelectorAll('tbody tr').length === 2")
	b.do(chromedp.NavigateBack())
	b.sees("compensation started")
	b.open("nothing/here")
	b.sees("There is no such page")
	b.open("runs/none")
	b.sees("no run has this run ID or workflow ID")
}

// Each action of the page does what it says.
//
// spec: B-17
func TestActionsOnARun(t *testing.T) {
	b := browse(begin(t, ""))
	b.actsOnRuns(func() {})
}

// actsOnRuns carries out each action. It calls a function before each dialog is answered.
func (b *browser) actsOnRuns(meanwhile func()) {
	b.t.Helper()
	w := b.world
	act := func(name, sees string) {
		b.t.Helper()
		b.click("[aria-label=Actions] button:not([aria-disabled])", name)
		meanwhile()
		b.click("dialog form button", name)
		b.sees(sees)
	}
	b.open("runs/" + w.start("waiting", "w1", ""))
	b.sees("It waits for signal ready")
	b.click("[aria-label=Actions] button", "Resume")
	b.sees("Resume: the run is not suspended.")
	act("Suspend", "from the dashboard")
	act("Resume", "It waits for signal ready")
	act("Cancel", "cancelled")

	b.open("runs/" + w.start("waiting", "w2", ""))
	act("Terminate", "cancelled")

	b.open("runs/" + w.start("waiting", "w3", ""))
	b.click("[aria-label=Actions] button", "Signal")
	b.until("document.querySelector('dialog input').value === 'ready'")
	b.fill("dialog textarea", `"bad"`)
	meanwhile()
	b.click("dialog form button", "Signal")
	b.sees("It failed at step judge: the word is bad")
	b.click("[aria-label=Actions] button", "Retry")
	b.sees("Done again:")
	meanwhile()
	b.click("dialog form button", "Retry")
	b.sees("retry of")
	b.sees("It failed at step judge: the word is bad")

	b.click("[aria-label=Actions] button:not([aria-disabled])", "Skip")
	b.fill("dialog textarea", `"by hand"`)
	meanwhile()
	b.click("dialog form button", "Skip")
	b.sees("skip of")
	b.sees("It has ended well.")
	b.sees(`"by hand"`)

	w.finish("order", "o1", "DE")
	b.open("runs/o1")
	b.click("[aria-label=Actions] button:not([aria-disabled])", "Fork")
	b.until("document.querySelector('dialog select').value === 'reserve'")
	b.script("{ const s = document.querySelector('dialog select'); s.value = 'ship'; " +
		"s.dispatchEvent(new Event('change', {bubbles: true})) }")
	b.sees("Kept: reserve, charge. Done again: ship.")
	meanwhile()
	b.click("dialog form button", "Fork")
	b.sees("fork of")
	b.sees("It has ended well.")

	b.click("[aria-label=Actions] button:not([aria-disabled])", "Roll back")
	meanwhile()
	b.click("dialog form button", "Roll back")
	b.sees("compensate of")
	b.sees("compensated")
}

// A list does not move under its reader: new runs wait, and what has changed is changed in place.
//
// spec: B-17
func TestNewRunsWaitUntilTheyAreWanted(t *testing.T) {
	w := begin(t, "")
	w.start("waiting", "first", "")
	b := browse(w)
	b.open("runs")
	b.sees("signal ready")
	w.start("waiting", "second", "")
	b.sees("1 new, show")
	w.send("first", "good")
	b.until("document.querySelector('tbody tr').innerText.includes('completed')")
	b.click("button", "1 new, show")
	b.until("document.querySelector('tbody tr').innerText.includes('second')")
	b.click("button[aria-label^=Pause]", "")
	b.sees("Live updates are paused.")
}

// Only what can be seen of a long history is in the page.
//
// spec: B-17
func TestAHistoryOfTenThousandEntriesHasFewNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("10,000 steps take seconds")
	}
	chromium(t)
	w := beginOn(t, memory.New(), "") // it has so many entries soon
	run := w.finish("long", "l1", 10_000)
	b := browse(w)
	b.open("runs/" + run + "?view=full")
	b.sees("10002 entries")
	b.until("document.querySelector('[aria-label=Entries] li')")
	count := "document.querySelectorAll('*').length"
	if n := b.number(count); n > 500 {
		t.Errorf("%d nodes", n)
	}
	b.script("document.querySelector('[aria-label=Entries]').scrollTop = 1e9")
	b.until("document.querySelector('[aria-label=Entries]').innerText.includes('run completed')")
	if n := b.number(count); n > 500 {
		t.Errorf("%d nodes at the end", n)
	}
}

// Who has no session shows a token once. What the server refuses is shown with its hint.
//
// spec: B-17
func TestALoginBeginsASession(t *testing.T) {
	token, hash := auth.NewToken()
	w := begin(t, "", auth.Credential{Name: "vera", Role: auth.Viewer, Hash: hash})
	run := w.start("waiting", "w1", "")
	b := browse(w, "status of 401")
	b.open("runs/" + run)
	b.fill("input[type=password]", "pdr_wrong")
	b.click("form button", "Log in")
	b.sees("ask an operator for a new token")
	b.fill("input[type=password]", token)
	b.click("form button", "Log in")
	b.sees("It waits for signal ready")
	b.click("[aria-label=Actions] button", "Cancel")
	b.sees("Cancel: needs the role operator.")
	b.click("header button", "Log out vera")
	b.sees("This server wants to know who you are")
}

// A server that is gone is said to be gone, and the page goes on when it is back.
//
// spec: B-17
func TestALostServerIsSaid(t *testing.T) {
	w := begin(t, "")
	w.start("waiting", "w1", "")
	b := browse(w, "ERR_", "EventSource")
	b.open("runs/w1")
	b.sees("It waits for signal ready")
	if err := w.http.Close(); err != nil {
		t.Fatal(err)
	}
	b.sees("trying again")
	w.send("w1", "good")
	w.listen()
	b.until("!document.querySelector('#disconnected')")
	b.sees("It has ended well.")
}

// spec: B-17
func TestKeys(t *testing.T) {
	w := begin(t, "/ops")
	w.start("waiting", "w1", "")
	w.start("waiting", "w2", "")
	b := browse(w)
	b.open("")
	b.sees("One engine executes runs")
	b.do(chromedp.KeyEvent("g"), chromedp.KeyEvent("r"))
	b.until("location.pathname === '/ops/runs'")
	b.sees("w1")
	b.do(chromedp.KeyEvent("j"))
	b.until("document.activeElement.innerText === 'w2'")
	b.do(chromedp.KeyEvent("j"))
	b.until("document.activeElement.innerText === 'w1'")
	b.do(chromedp.KeyEvent("k"))
	b.until("document.activeElement.innerText === 'w2'")
	b.do(chromedp.KeyEvent("/"))
	b.until("document.activeElement.type === 'search'")
	b.fill("input[type=search]", "w1"+kb.Enter)
	b.sees("It waits for signal ready")
	b.do(chromedp.KeyEvent("?"))
	b.sees("pause live updates")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.until("!document.querySelector('dialog')")
	b.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(2)))
	b.do(chromedp.KeyEvent("expen" + kb.Enter))
	b.until("location.pathname === '/ops/workflows/expense'")
	if title := value(b, chromedp.Title()); !strings.HasPrefix(title, "expense") {
		t.Error(title)
	}
}

// The event that a dialog has closed comes a little later. The next dialog is open by then, and
// stays.
//
// spec: B-17
func TestADialogThatClosesLeavesTheNextOneOpen(t *testing.T) {
	b := browse(begin(t, ""))
	b.open("")
	b.click("header button", "Go to")
	b.until("document.querySelector('dialog[open]')")
	b.script(`const keys = document.querySelector('header button[aria-label=Keys]')
		window.told = 0
		document.querySelector('dialog').addEventListener('close', () => setTimeout(() => told++, 50))
		document.querySelector('dialog').close()
		keys.click()`)
	b.until("window.told === 1")
	b.sees("pause live updates")
	b.until("document.querySelectorAll('dialog[open]').length === 1")
}
