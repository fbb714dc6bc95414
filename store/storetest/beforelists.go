package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// The runs of an old database, in the order of their creation: the engine with the higher number
// has started the first one. The time of the last one is not known.
const (
	oldestListed = 2<<37 | 1
	failedListed = 1<<37 | 1
	newestListed = 1<<37 | 2
	nullListed   = 3<<37 | 1
)

// OldLists returns statements that write runs of a version without the order of creation and
// without texts of failures. The names of the tables begin with prefix. no is the literal of false.
func OldLists(prefix, no string) string {
	var s strings.Builder
	for i, h := range []struct {
		number         int64
		status         journal.Status
		created, ended string
	}{
		{oldestListed, journal.Completed, "3", "9"},
		{failedListed, journal.Failed, "4", "8"},
		{newestListed, journal.Waiting, "5", "null"},
		{nullListed, journal.Waiting, "null", "null"},
	} {
		fmt.Fprintf(&s, `insert into %sheads (number, workflow_id, workflow, pattern, status, owner, wake, created, ended, last, cause, crashes, seen, mail, given, chain, parent, keep, claimed, retain)
values (%d, 'order-%d', 'w', 0, %d, 0, 9, %s, %s, 1, '', 0, 0, 0, 0, 0, 0, 0, %s, 'ever');
`, prefix, h.number, i, h.status, h.created, h.ended, no)
	}
	return s.String()
}

// Listed demands that the runs of [OldLists] are listed after a new version has opened the
// database.
func Listed(t *testing.T, db Database) {
	w := &world{T: t, db: db}
	w.open()
	defer func() { w.s.Close() }()
	all := []journal.Number{newestListed, failedListed, oldestListed, nullListed}
	w.same("all", numbersOf(w.find(store.Filter{})), all)
	got, _ := walk(w, store.Filter{Workflow: "w", Limit: 1})
	w.same("page by page", numbersOf(got), all)
	failed := w.find(store.Filter{Statuses: []journal.Status{journal.Failed}})
	w.same("failed ones", numbersOf(failed), []journal.Number{failedListed})
	w.same("the text of a failure", failed[0].Error, "")
}
