package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// These are the numbers of the runs that [CopiedInboxes] writes.
const (
	beforeContinued = journal.Number(1<<37 + 501 + iota) // has taken message 1
	// continues beforeContinued, is open and has got messages 2 to 4
	beforeNext
	beforeFailed // has failed and not taken message 1
	// retries beforeFailed, and has got a message of its own
	beforeRetry
	beforeGone // was purged, except for its message
)

// CopiedInboxes returns statements that write a database of an old version. In that version a
// successor got copies of the messages that its predecessor had not taken. The names of the
// tables begin with prefix. no is the literal of false, and bytes returns the literal of
// bytes.
func CopiedInboxes(prefix, no string, bytes func(string) string) string {
	head := func(n journal.Number, id string, status journal.Status, ended string, mail int,
		chain journal.Number, retain string) string {
		return fmt.Sprintf(
			`insert into {heads} (number, workflow_id, workflow, pattern, status, owner, wake, created, ended, last, cause, crashes, seen, mail, given, chain, parent, keep, claimed, retain, expires)
values (%d, '%s', 'w', 0, %d, 0, 9, 3, %s, 1, '', 0, 0, %d, 0, %d, 0, 0, %s, '%s', %s);
insert into {entries} (run, seq, kind, status, occ, took, name, at) values (%[1]d, 1, 1, 2, 0, 0, '', 3);
`, n, id, status, ended, mail, chain, no, retain, ended)
	}
	message := func(run journal.Number, number int, id string, chain journal.Number, taken,
		spill string) string {
		return fmt.Sprintf(
			`insert into {messages} (run, number, chain, id, taken, kind, name, at, spill) values (%d, %d, %d, '%s', %s, %d, 'x%[2]d', 4, %[7]s);
`, run, number, chain, id, taken, journal.SignalReceived, spill)
	}
	all := head(beforeContinued, "order-11", journal.ContinuedAsNew, "5", 3, beforeContinued,
		"0s") +
		head(beforeNext, "order-11", journal.Waiting, "null", 4, beforeContinued, "0s") +
		head(beforeFailed, "order-12", journal.Failed, "5", 1, beforeFailed, "0s") +
		head(beforeRetry, "order-12", journal.Waiting, "null", 1, beforeFailed, "0s") +
		message(beforeContinued, 1, "m1", beforeContinued, "2", "null") +
		message(beforeNext, 2, "m2", beforeContinued, "null", "null") +
		message(beforeNext, 3, "m3", beforeContinued, "null", "901") +
		message(beforeNext, 4, "m4", beforeContinued, "null", "null") +
		message(beforeFailed, 1, "m1", beforeFailed, "null", "null") +
		message(beforeRetry, 1, "m2", beforeFailed, "null", "null") +
		message(beforeGone, 1, "m1", beforeGone, "null", "902") +
		fmt.Sprintf("insert into {gone} (run) values (%d);\n", beforeGone) +
		fmt.Sprintf("insert into {spilled} (id, data) values (901, %s), (902, %s);\n", bytes("901"),
			bytes("902"))
	return strings.NewReplacer("{", prefix, "}", "").Replace(all)
}

// Migrated demands that a database with [CopiedInboxes] works after a new version has opened
// it.
func Migrated(t *testing.T, db Database) {
	w := &world{T: t, db: db}
	w.open()
	defer func() { w.s.Close() }()
	w.join(0)
	w.same("inbox", labels(w.inbox(beforeNext)), []string{"2:x2", "3:x3", "4:x4"})
	w.same("inbox of the one before", labels(w.inbox(beforeContinued)), []string{})
	w.judged(w.posted(1, toID("order-11", signal("x1", "m1")))[0], store.Duplicate, beforeNext, 0)
	w.judged(w.posted(1, toID("order-11", signal("x5", "m5")))[0], store.Delivered, beforeNext, 5)
	w.judged(w.posted(1, toID("order-12", signal("x2", "m3")))[0], store.Delivered, beforeRetry, 2)
	w.same("inbox of one that retries", labels(w.inbox(beforeRetry)), []string{"1:x1", "2:x2"})
	w.same("inbox of the failed one", labels(w.inbox(beforeFailed)), []string{"1:x1"})
	for _, r := range w.take(10, 5).Runs {
		w.same("claimed", len(r.Inbox), map[journal.Number]int{
			beforeNext: 4, beforeRetry: 2,
		}[r.Head.Number])
	}
	w.commit(taking(beforeNext, 2, 2, signal("x2", "")))
	next := w.succeeded(w.head(beforeNext))
	w.same("inbox of a successor", labels(w.inbox(next.Number)), []string{"3:x3", "4:x4", "5:x5"})
	w.same("payload", w.inbox(next.Number)[0].Data, []byte("901"))
	w.commit(taking(next.Number, 2, 4, signal("x4", "")))
	w.commit(ended(w.head(next.Number), 3, 20), ended(w.head(beforeRetry), 2, 20))
	w.same("purged", w.purge(100, 3).Runs, 5)
	for _, payload := range []journal.Number{901, 902} {
		w.payload(w.written(w.start(""))[0].Number, 2, payload, "")
	}
}
