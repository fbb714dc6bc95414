package ui_test

import (
	"fmt"
	"testing"
)

// What a reader hides is hidden wherever the page has it, until the reader asks for it.
//
// spec: B-17
func TestHiddenPayloadsAreHiddenEverywhere(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	b.open("configuration")
	b.click("section label", "Hide payloads")
	run := w.start("talker", "t1", "softly")
	w.send("t1", "adieu")
	b.open("runs/" + run + "?view=json")
	b.sees("ERROR it is over")
	b.sees("Output 6 bytes show")
	b.until("!/softly|adieu|to be/.test(document.body.innerText)")
	b.click("section button", "verses, ")
	b.sees("The stream has ended.")
	b.until("!/softly|adieu|to be/.test(document.body.innerText)")
	b.click("button[aria-label='Show the stream verses']", "show")
	b.sees("adieu")
}

// The fields of a form have what was written as JSON, if they can show it.
//
// spec: B-17
func TestFieldsHaveWhatWasWrittenAsJSON(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	b.open("workflows/expense")
	b.fill("fieldset input", "Ada")
	b.click("fieldset legend button", "as JSON")
	b.fill("fieldset textarea", `{"by": "Bob", "cents": 7, "urgent": true}`)
	b.click("fieldset legend button", "as fields")
	b.until("document.querySelector('fieldset input').value === 'Bob'")
	b.until("document.querySelector('fieldset input[type=number]').value === '7'")
	b.until("document.querySelector('fieldset input[type=checkbox]').checked")
	b.click("fieldset legend button", "as JSON")
	b.fill("fieldset textarea", `{"by": "Bob", "cents": 7, "more": 1}`)
	b.until("document.querySelector('fieldset legend button').disabled")
	b.fill("fieldset textarea", `{"by": "Bob"`)
	b.until("document.querySelector('fieldset legend button').disabled")
	b.fill("fieldset textarea", `{"by": "Eve"}`)
	b.click("fieldset legend button:not([disabled])", "as fields")
	b.until("document.querySelector('fieldset input').value === 'Eve'")
}

// A dialog stays open until the server has answered, and what is sent again after a lost answer is
// done once.
//
// spec: B-17
func TestADialogWaitsForItsAnswer(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	run := w.start("talker", "t1", "softly")
	b.open("runs/" + run)
	b.click("[aria-label=Actions] button", "Signal")
	b.fill("dialog textarea", `"adieu"`)
	b.script("window.real = window.fetch; window.keys = []; window.fetch = async (at, o) => { " +
		"if (o?.method !== 'POST') return window.real(at, o); " +
		"window.keys.push(o.headers['Idempotency-Key']); " +
		"await window.real(at, o); await new Promise(lose => window.lose = lose); " +
		"throw new TypeError('lost') }")
	b.click("dialog form button", "Signal")
	b.until("window.lose")
	b.script("document.querySelector('dialog').dispatchEvent(" +
		"new Event('cancel', {cancelable: true})) && document.querySelector('dialog').close()")
	b.script("document.querySelector('dialog').click()")
	b.until("document.querySelector('dialog').open")
	b.until("document.querySelector('dialog [aria-label=Close]').disabled")
	b.script("window.lose()")
	b.sees("It may have done it or not.")
	b.script("window.fetch = (at, o) => { if (o?.method === 'POST') " +
		"window.keys.push(o.headers['Idempotency-Key']); return window.real(at, o) }")
	b.click("dialog form button", "Signal")
	b.until("!document.querySelector('dialog')")
	b.until("window.keys.length === 2 && window.keys[0] && window.keys[0] === window.keys[1]")
}

// Once a signal of the first page is delivered, that page has one that the second page had before.
// It is shown once.
//
// spec: B-17
func TestASignalOfTwoPagesIsShownOnce(t *testing.T) {
	w := begin(t, "")
	for range 102 {
		w.post("executions/nobody-yet/signal/other", `1`)
	}
	run := w.start("talker", "t1", "softly")
	b := browse(w)
	b.open("signals")
	b.until("document.querySelectorAll('section li').length === 100")
	b.click("button", "More")
	b.until("document.querySelectorAll('section li').length === 102")
	first := b.number("document.querySelector('section li').innerText" +
		".match(/number ([0-9]+)/)[1] * 1")
	w.post(fmt.Sprintf("signals/unrouted/%d/deliver/%s", first, run), "{}")
	b.until("document.querySelectorAll('section li').length === 101")
}
