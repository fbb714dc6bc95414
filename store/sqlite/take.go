package sqlite

import (
	"cmp"
	"database/sql/driver"
	"errors"
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

const (
	// claimBytes limits the size of the journals and inboxes that come with one claim.
	claimBytes = 32 << 20

	// fewEntries is the number of entries of a run for which memory is reserved at first.
	fewEntries = 6
)

const (
	selectDue = `select ` + headColumns + ` from perdure_heads
where owner = 0 and workflow = ? and wake <= ? and ended is null order by wake, number limit ? + 0`

	// selectOrdered hides by "+" that the runs are open and nobody's: the index of those has all
	// that are due.
	selectOrdered = `select ` + headColumns + ` from perdure_heads
where ordered > 0 and +owner = 0 and workflow = ? and wake <= ? and +ended is null order by wake, number limit ? + 0`

	// selectDoomed selects runs that are to be terminated, of workflows that are not in a list.
	selectDoomed = `select ` + headColumns + ` from perdure_heads
where ordered = 2 and +owner = 0 and wake <= ? and +ended is null and workflow not in (select value from json_each(?)) order by wake, number limit ? + 0`

	selectNext = `select wake from perdure_heads
where owner = 0 and workflow = ? and wake is not null and ended is null order by wake limit 1`

	selectNextOrdered = `select wake from perdure_heads
where ordered > 0 and +owner = 0 and workflow = ? and wake is not null and +ended is null order by wake limit 1`

	selectNextDoomed = `select wake from perdure_heads
where ordered = 2 and +owner = 0 and wake is not null and +ended is null and workflow not in (select value from json_each(?)) order by wake limit 1`

	// takeHeads has values that always fit. "or rollback" lets SQLite keep no copies of pages for
	// the case that a value does not fit.
	takeHeads = `update or rollback perdure_heads set owner = ?, given = mail, claimed = 1 where `

	takeOne = takeHeads + `number = ? and owner in (0, ?) and ended is null returning ` +
		headColumns

	selectUnseen = `select ` + headColumns + `, given from perdure_heads
where owner = ? and mail > given and owner > 0 and ended is null`

	seeMail = `update perdure_heads set given = mail where owner = ? and mail > given and owner > 0 and ended is null`

	selectInbox = `select ` + messageColumns +
		` from (select coalesce(inbox, number) as box, past from perdure_heads where number = ?) cross join perdure_messages
where holder = box and taken is null and number > max(past, ?) order by number limit ? + 0`
)

var (
	takeMany       = listed(takeHeads+"number", "")
	selectJournals = listed("select run, "+entryColumns+" from perdure_entries where run",
		" order by run, seq")
	selectInboxes = listed("select reader, "+messageColumns+" from (select number as reader, "+
		"coalesce(inbox, number) as box, past from perdure_heads where number",
		") cross join perdure_messages where holder = box and taken is null and number > past "+
			"order by reader, number")
)

// A taking is the state of one claim of runs.
type taking struct {
	*conn
	store  *Store
	engine journal.EngineID
	out    *store.Claimed
}

// due takes the runs that are due. If there are many, a connection for reading reads their journals
// meanwhile: nobody writes them before the claim is over.
func (t *taking) due(c store.TakeDue) error {
	due, err := t.candidates(c)
	if err != nil {
		return err
	}
	most := due[:min(len(due), c.Max)]
	t.out.Runs = make([]store.Run, 0, len(most))
	// If no place among the readers is free, the writer reads by itself: it waits for no reader.
	if len(most) <= runsAtATime || !t.store.readers.reserve() {
		r := reading{conn: t.conn, give: t.own}
		err = r.read(most)
	} else {
		err = t.both(most)
	}
	if err != nil {
		return err
	}
	t.out.More = len(due) > len(t.out.Runs)
	return t.next(c)
}

// both reads runs and takes them at the same time. The caller has reserved a place among the
// readers.
func (t *taking) both(due []journal.Head) error {
	var failed error
	read := make(chan []store.Run, 2)
	go func() {
		defer close(read)
		failed = t.store.readers.with(func(db *conn) error {
			r := reading{conn: db, give: func(runs []store.Run) error {
				read <- runs
				return nil
			}}
			return r.read(due)
		})
	}()
	var err error
	for runs := range read {
		if err == nil {
			err = t.own(runs)
		}
	}
	return errors.Join(failed, err)
}

// own makes the engine the owner of runs that have no owner.
func (t *taking) own(runs []store.Run) error {
	numbers := make([]driver.Value, len(runs))
	for i := range runs {
		numbers[i] = int64(runs[i].Head.Number)
	}
	sql, args := takeMany.of(numbers, int64(t.engine))
	if _, err := t.exec(sql, args...); err != nil {
		return err
	}
	for i := range runs {
		runs[i].Head.Owner = t.engine
	}
	t.out.Runs = append(t.out.Runs, runs...)
	return nil
}

// candidates returns the heads of the runs that may be taken, in the order in which they are: at
// most one more than the claim may take.
func (t *taking) candidates(c store.TakeDue) ([]journal.Head, error) {
	all, err := t.heads(selectOrdered, c.Paused, c)
	if err != nil {
		return nil, err
	}
	// There is no other engine that could have a workflow.
	if err := t.query(func(row []driver.Value) error {
		all = append(all, t.store.head(row))
		return nil
	}, selectDoomed, c.Now.UnixNano(), listText(slices.Concat(c.Workflows, c.Paused)),
		int64(c.Max)+1); err != nil {
		return nil, err
	}
	due, err := t.heads(selectDue, c.Workflows, c)
	all = append(all, due...)
	return all[:min(len(all), c.Max+1)], err
}

// heads returns the heads of due runs that a statement selects of each of the workflows, longest
// due first.
func (t *taking) heads(sql string, workflows []string, c store.TakeDue) ([]journal.Head, error) {
	var due []journal.Head
	for _, workflow := range workflows {
		err := t.query(func(row []driver.Value) error {
			due = append(due, t.store.head(row))
			return nil
		}, sql, workflow, c.Now.UnixNano(), int64(c.Max)+1)
		if err != nil {
			return nil, err
		}
	}
	if len(workflows) > 1 {
		slices.SortFunc(due, func(a, b journal.Head) int {
			return cmp.Or(a.Wake.Compare(b.Wake), cmp.Compare(a.Number, b.Number))
		})
	}
	return due, nil
}

// next sets the time when the next run is due that the claim would take.
func (t *taking) next(c store.TakeDue) error {
	first := func(sql string, arg driver.Value) error {
		v, err := t.value(sql, arg)
		if at := moment(v); !at.IsZero() && (t.out.Next.IsZero() || at.Before(t.out.Next)) {
			t.out.Next = at
		}
		return err
	}
	for _, workflow := range c.Paused {
		if err := first(selectNextOrdered, workflow); err != nil {
			return err
		}
	}
	for _, workflow := range c.Workflows {
		if err := first(selectNext, workflow); err != nil {
			return err
		}
	}
	return first(selectNextDoomed, listText(slices.Concat(c.Workflows, c.Paused)))
}

// one takes a run by its number, if it is open and no other engine owns it.
func (t *taking) one(n journal.Number) error {
	var taken []journal.Head
	err := t.query(func(row []driver.Value) error {
		taken = append(taken, t.store.head(row))
		return nil
	}, takeOne, int64(t.engine), int64(n), int64(t.engine))
	if err != nil || len(taken) == 0 {
		return err
	}
	r := reading{conn: t.conn, give: func(runs []store.Run) error {
		t.out.Runs = runs
		return nil
	}}
	return r.read(taken)
}

// mail returns the messages that the engine's runs have got and the engine was not given.
func (t *taking) mail() error {
	var given []int64
	err := t.query(func(row []driver.Value) error {
		t.out.Mail = append(t.out.Mail, store.Run{Head: t.store.head(row)})
		given = append(given, integer(row[headWidth]))
		return nil
	}, selectUnseen, int64(t.engine))
	if err != nil || len(given) == 0 {
		return err
	}
	r := reading{conn: t.conn}
	for i := range given {
		if err := r.inbox(&t.out.Mail[i], given[i]); err != nil {
			return err
		}
	}
	_, err = t.exec(seeMail, int64(t.engine))
	return err
}

// errStop ends a query whose remaining rows are not needed.
var errStop = errors.New("sqlite: no more rows are wanted")
