package sqlite

import (
	"database/sql/driver"
	"errors"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A reading reads the journals and inboxes of claimed runs, up to the size limit of a claim.
type reading struct {
	*conn
	give func([]store.Run) error // called with a few runs at a time
	size int                     // size of the rows read so far
}

// read reads runs, a few dozen with each statement. If they are too large to come together, it
// reads half as many.
func (r *reading) read(due []journal.Head) error {
	most := runsAtATime
	for len(due) > 0 && r.size < claimBytes {
		n, before := min(most, len(due)), r.size
		runs, err := r.some(due[:n])
		if err != nil {
			return err
		}
		if n > 1 && r.size > claimBytes {
			most, r.size = n/2, before
			continue
		}
		if err := r.give(runs); err != nil {
			return err
		}
		due = due[n:]
	}
	return nil
}

func (r *reading) some(due []journal.Head) ([]store.Run, error) {
	runs := make([]store.Run, len(due))
	for i := range due {
		runs[i].Head = due[i]
	}
	if err := r.journals(runs); err != nil {
		return nil, err
	}
	for i := range runs {
		run := &runs[i]
		run.CutOff()
		if !run.Head.Status.Valid() {
			run.Entries = nil
			run.Err = &journal.CorruptError{Run: run.Head.Number, Reason: "unknown status " +
				run.Head.Status.String()}
		}
	}
	return runs, r.inboxes(runs)
}

// find returns the run with that number among the runs.
func find(runs []store.Run, n journal.Number) *store.Run {
	for i := range runs {
		if runs[i].Head.Number == n {
			return &runs[i]
		}
	}
	return nil
}

// journals reads the journals of the runs, each up to the first row that cannot be read. It stops
// if they are too large for a claim and there is more than one run.
func (r *reading) journals(runs []store.Run) error {
	numbers := make([]driver.Value, len(runs))
	for i := range runs {
		numbers[i] = int64(runs[i].Head.Number)
	}
	run := &runs[0]
	sql, args := selectJournals.of(numbers)
	err := r.query(func(row []driver.Value) error {
		if n := journal.Number(integer(row[0])); n != run.Head.Number {
			run = find(runs, n)
		}
		run.Last = integer(row[1])
		if run.Err != nil {
			return nil
		}
		e, err := entry(run.Head.Number, row[1:])
		if err != nil {
			run.Err = err
			return nil
		}
		if run.Entries == nil {
			run.Entries = make([]journal.Entry, 0, fewEntries)
		}
		run.Entries = append(run.Entries, e)
		if r.size += e.Size(); len(runs) > 1 && r.size > claimBytes {
			return errStop
		}
		return nil
	}, sql, args...)
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// fewMessages is how many messages a run may have got at most to be read together with other runs.
const fewMessages = 16

// inboxes reads the untaken messages of the runs. One statement reads all runs that have got few
// messages.
func (r *reading) inboxes(runs []store.Run) error {
	var numbers []driver.Value
	for i := range runs {
		run := &runs[i]
		if mail := run.Head.Mail; mail == 0 || run.Err != nil {
			continue
		} else if mail <= fewMessages {
			numbers = append(numbers, int64(run.Head.Number))
			continue
		}
		if err := r.inbox(run, 0); err != nil {
			return err
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	run, size := &runs[0], 0
	sql, args := selectInboxes.of(numbers)
	return r.query(func(row []driver.Value) error {
		if n := journal.Number(integer(row[0])); n != run.Head.Number {
			run, size = find(runs, n), 0
		}
		r.deliver(run, row[1:], &size)
		return nil
	}, sql, args...)
}

// inbox reads the untaken messages with numbers above a number, up to the size of a page.
func (r *reading) inbox(run *store.Run, above int64) error {
	if run.Head.Mail == above || run.Err != nil {
		return nil
	}
	size := 0
	err := r.query(func(row []driver.Value) error {
		if !r.deliver(run, row, &size) {
			return errStop
		}
		return nil
	}, selectInbox, int64(run.Head.Number), above, int64(store.InboxPage)+1)
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// deliver appends the message in a row to the inbox of a run. size is the size of that inbox.
// deliver reports whether the run can take more messages.
func (r *reading) deliver(run *store.Run, row []driver.Value, size *int) bool {
	if run.Err != nil || run.More {
		return false
	}
	if len(run.Inbox) == store.InboxPage || *size >= store.InboxBytes {
		run.More = true
		return false
	}
	m, err := message(run.Head.Number, row)
	if err != nil {
		run.Err = err
		return false
	}
	*size += m.Size()
	r.size += m.Size()
	run.Inbox = append(run.Inbox, m)
	return true
}
