package ui_test

import "testing"

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
