package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

var (
	dueHeads     = fmt.Sprintf(selectDue, of("h", headColumns), claimable)
	orderedHeads = fmt.Sprintf(selectDue, of("h", headColumns), hasOrder)
	doomedHeads  = fmt.Sprintf(selectDoomed, of("h", headColumns))
	nextDue      = fmt.Sprintf(selectNext, claimable)
	nextOrdered  = fmt.Sprintf(selectNext, hasOrder)
)

const (
	selectJournals = `select run, ` + entryColumns +
		` from perdure.entries where run = any($1::bigint[]) order by run, seq`

	selectInboxes = `select reader, ` + messageColumns + ` from (
    select number as reader, coalesce(inbox, number) as box, past from perdure.heads where number = any($1::bigint[]) offset 0) h
cross join lateral (select * from perdure.messages where holder = h.box and taken is null and number > h.past order by number offset 0) m`

	selectInbox = `select ` + messageColumns + ` from perdure.messages
where holder = (select coalesce(inbox, number) from perdure.heads where number = $1) and taken is null
and number > greatest($2, (select past from perdure.heads where number = $1)) order by number limit $3`
)

// runsAtATime is the number of journals that one statement reads. fewMessages is the largest
// number of messages that a run may have got for its inbox to be read together with others.
const (
	runsAtATime = 128
	fewMessages = 16
)

// A querier makes queries.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// A reading reads journals and inboxes of runs, up to the limits of one claim.
type reading struct {
	store *Store
	from  querier
	size  int // bytes read so far
}

// read reads runs, many with each statement: at least one run, and more until their size
// reaches the limit. If many together are too large, it reads half as many at a time.
func (r *reading) read(ctx context.Context, due []journal.Head) ([]store.Run, error) {
	all := make([]store.Run, 0, len(due))
	most := runsAtATime
	for len(due) > 0 && r.size < claimBytes {
		n, before := min(most, len(due)), r.size
		runs, err := r.some(ctx, due[:n])
		if err != nil {
			return nil, err
		}
		if n > 1 && r.size > claimBytes {
			most, r.size = n/2, before
			continue
		}
		all, due = append(all, runs...), due[n:]
	}
	return all, nil
}

func (r *reading) some(ctx context.Context, due []journal.Head) ([]store.Run, error) {
	runs := make([]store.Run, len(due))
	byNumber := make(map[journal.Number]*store.Run, len(due))
	for i := range due {
		runs[i].Head = due[i]
		byNumber[due[i].Number] = &runs[i]
	}
	if err := r.journals(ctx, byNumber); err != nil {
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
	return runs, r.inboxes(ctx, runs, byNumber)
}

// numbers returns the keys.
func numbers(runs map[journal.Number]*store.Run) []int64 {
	out := make([]int64, 0, len(runs))
	for n := range runs {
		out = append(out, int64(n))
	}
	return out
}

// journals reads the journals of the runs, each up to the first unreadable row. It stops when
// the journals of more than one run are too large for a claim.
func (r *reading) journals(ctx context.Context, runs map[journal.Number]*store.Run) error {
	rows, err := r.from.Query(ctx, selectJournals, numbers(runs))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var row entryRow
		var number int64
		if err := rows.Scan(append([]any{&number}, row.into()...)...); err != nil {
			return err
		}
		run := runs[journal.Number(number)]
		run.Last = row.seq
		if run.Err != nil {
			continue
		}
		e, err := row.entry(run.Head.Number)
		if err != nil {
			run.Err = err
			continue
		}
		run.Entries = append(run.Entries, e)
		if r.size += e.Size(); len(runs) > 1 && r.size > claimBytes {
			return nil
		}
	}
	return rows.Err()
}

// inboxes reads the untaken messages of the runs. One statement reads the inboxes of all runs
// that were sent few messages.
func (r *reading) inboxes(ctx context.Context, runs []store.Run,
	byNumber map[journal.Number]*store.Run) error {
	var few []int64
	for i := range runs {
		run := &runs[i]
		if mail := run.Head.Mail; mail == 0 || run.Err != nil {
			continue
		} else if mail <= fewMessages {
			few = append(few, int64(run.Head.Number))
			continue
		}
		if err := r.inbox(ctx, run, 0); err != nil {
			return err
		}
	}
	if len(few) == 0 {
		return nil
	}
	rows, err := r.from.Query(ctx, selectInboxes, few)
	if err != nil {
		return err
	}
	defer rows.Close()
	sizes := map[int64]int{}
	for rows.Next() {
		var row entryRow
		var number int64
		if err := rows.Scan(append(append([]any{&number}, row.into()...), &row.id)...); err != nil {
			return err
		}
		size := sizes[number]
		r.deliver(byNumber[journal.Number(number)], &row, &size)
		sizes[number] = size
	}
	return rows.Err()
}

// inbox reads the untaken messages with higher numbers than above, up to the limits of a
// page.
func (r *reading) inbox(ctx context.Context, run *store.Run, above int64) error {
	if run.Head.Mail == above || run.Err != nil {
		return nil
	}
	rows, err := r.from.Query(ctx, selectInbox, int64(run.Head.Number), above, store.InboxPage+1)
	if err != nil {
		return err
	}
	defer rows.Close()
	size := 0
	for rows.Next() {
		var row entryRow
		if err := rows.Scan(append(row.into(), &row.id)...); err != nil {
			return err
		}
		if !r.deliver(run, &row, &size) {
			return nil
		}
	}
	return rows.Err()
}

// deliver adds a message to the inbox of a run, which has size bytes so far. It returns false
// if no more messages are wanted.
func (r *reading) deliver(run *store.Run, row *entryRow, size *int) bool {
	if run.Err != nil || run.More {
		return false
	}
	if len(run.Inbox) == store.InboxPage || *size >= store.InboxBytes {
		run.More = true
		return false
	}
	m, err := row.message(run.Head.Number)
	if err != nil {
		run.Err = err
		return false
	}
	*size += m.Size()
	r.size += m.Size()
	run.Inbox = append(run.Inbox, m)
	return true
}
