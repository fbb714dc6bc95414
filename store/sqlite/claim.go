package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// claimBytes bounds the journals that come with one claim.
const claimBytes = 32 << 20

const (
	selectDue = `select number, wake from heads
where owner = 0 and workflow = ? and wake <= ? and ended is null order by wake, number limit ?`

	selectNext = `select wake from heads
where owner = 0 and workflow = ? and wake is not null and ended is null order by wake limit 1`

	takeHead = `update heads set owner = ? where number = ? and owner in (0, ?) and ended is null`

	// selectClaimed has a column more: the sequence of the last entry.
	selectClaimed = `select ` + headColumns + `, (select max(seq) from entries where run = number)
from heads where number = ?`

	selectJournal = `select ` + entryColumns + ` from entries where run = ? order by seq`
)

// Claim joins an engine, gives it runs, or takes it off.
func (s *Store) Claim(_ context.Context, c store.Claim) (store.Claimed, error) {
	if c.Engine == 0 {
		return s.join(c)
	}
	if c.Leave {
		return store.Claimed{Engine: c.Engine}, s.quit(c)
	}
	var out store.Claimed
	err := s.write(func(db *conn) error {
		out = store.Claimed{Engine: c.Engine}
		if err := fence(db, c.Engine); err != nil {
			return err
		}
		if c.Run != 0 {
			_, err := s.take(db, c.Engine, c.Run, &out)
			return err
		}
		return s.takeDue(db, c, &out)
	})
	if err != nil {
		return store.Claimed{}, err
	}
	return out, nil
}

// A candidate is a run that is due.
type candidate struct {
	run  journal.Number
	wake int64
}

func (s *Store) takeDue(db *conn, c store.Claim, out *store.Claimed) error {
	due, err := candidates(db, c)
	if err != nil {
		return err
	}
	size := 0
	for _, d := range due {
		if len(out.Runs) == c.Max || size >= claimBytes {
			out.More = true
			break
		}
		n, err := s.take(db, c.Engine, d.run, out)
		if err != nil {
			return err
		}
		size += n
	}
	out.Next, err = next(db, c.Workflows)
	return err
}

// candidates gives one run more than may be taken, if there are so many, those
// due longest first.
func candidates(db *conn, c store.Claim) ([]candidate, error) {
	var due []candidate
	most := int64(c.Max) + 1
	for _, workflow := range c.Workflows {
		err := db.query(func(row []driver.Value) error {
			due = append(due, candidate{run: journal.Number(integer(row[0])), wake: integer(row[1])})
			return nil
		}, selectDue, workflow, c.Now.UnixNano(), most)
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(due, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.wake, b.wake), cmp.Compare(a.run, b.run))
	})
	return due[:min(int64(len(due)), most)], nil
}

// next gives the earliest wake time of the runs of the workflows that nobody
// owns.
func next(db *conn, workflows []string) (time.Time, error) {
	var first time.Time
	for _, workflow := range workflows {
		v, err := db.value(selectNext, workflow)
		if err != nil {
			return first, err
		}
		if t := moment(v); !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first, nil
}

// take gives the engine one run, if nobody owns it and it is open. It tells the
// size of its journal.
func (s *Store) take(db *conn, engine journal.EngineID, n journal.Number, out *store.Claimed) (size int, err error) {
	rows, err := db.exec(takeHead, int64(engine), int64(n), int64(engine))
	if err != nil || rows == 0 {
		return 0, err
	}
	var run store.Run
	err = db.query(func(row []driver.Value) error {
		run.Head, run.Last = s.head(row), integer(row[len(row)-1])
		return nil
	}, selectClaimed, int64(n))
	if err != nil {
		return 0, err
	}
	if size, err = fillJournal(db, &run); err != nil {
		return 0, err
	}
	out.Runs = append(out.Runs, run)
	return size, nil
}

// fillJournal reads the journal of a claimed run up to the first row that cannot
// be read.
func fillJournal(db *conn, run *store.Run) (size int, err error) {
	if !run.Head.Status.Valid() {
		run.Err = &journal.CorruptError{Run: run.Head.Number, Reason: "unknown status " + run.Head.Status.String()}
		return 0, nil
	}
	run.Entries = make([]journal.Entry, 0, min(run.Last, maxRoom))
	err = db.query(func(row []driver.Value) error {
		e, err := entry(run.Head.Number, row)
		if err != nil {
			run.Err = err
			return errStop
		}
		run.Entries = append(run.Entries, e)
		size += e.Size()
		return nil
	}, selectJournal, int64(run.Head.Number))
	if errors.Is(err, errStop) {
		err = nil
	}
	return size, err
}

// maxRoom bounds the room that is made for a journal before it is read.
const maxRoom = 1 << 20

// errStop ends a query whose other rows are not wanted.
var errStop = errors.New("sqlite: no more rows are wanted")
