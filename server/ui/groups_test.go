package ui_test

import (
	"testing"

	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/deadletter"
)

// The runs that have failed by the same error are one row, which leads to them.
//
// spec: B-17
func TestFailedRunsAreGroupedByTheirErrors(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	for _, id := range []string{"w-1", "w-2"} {
		w.start("waiting", id, "")
		w.send(id, "bad")
	}
	b.open("runs?status=FAILED")
	b.until(`document.querySelector('.chips .bad')?.innerText.includes('2 failed')`)
	b.click("button", "Group by error")
	b.until(`location.search.includes('group=error')`)
	b.until(`document.querySelector('td.count')?.innerText.trim() === '2'`)
	b.click(".message a", "")
	b.until(`!location.search.includes('group=') && location.search.includes('error')`)
	b.until(`document.querySelectorAll('tbody tr').length === 2`)
	b.open("")
	b.sees("2 failed in 24 h")
	b.until(`document.querySelector('.chips a.bad')?.getAttribute('href') === 'runs?status=FAILED'`)
}

// Dead letters whose errors differ in numbers only are one row, which leads to them.
//
// spec: B-17, R-40
func TestDeadLettersAreGroupedByTheirErrors(t *testing.T) {
	w := begin(t, "")
	w.fail("word-1")
	for _, box := range []string{"7", "12345"} {
		_, err := admin.New(w.engine).AddDeadLetter(t.Context(), deadletter.Letter{
			Workflow: "mail", WorkflowID: box, Error: "mailbox " + box + " is full",
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	b := browse(w)
	b.open("dead-letters")
	b.sees("3 dead letters by their errors")
	b.click("button", "Retry all 2")
	b.sees("there are no runs to retry")
	b.click(".message a", "is full")
	b.until("location.search.includes('error=mailbox')")
	b.until("document.querySelectorAll('tbody tr').length === 2")
	b.sees("mailbox 7 is full")
	b.sees("mailbox 12345 is full")
	b.click("button", "Show all errors")
	b.sees("the word is bad")
}
