package sqlite

import (
	"database/sql/driver"
	"fmt"
	"math"
	"time"

	"github.com/perdure/perdure/journal"
)

// The columns of a head and of an entry, in the order in which they are read. The run is left out
// of an entry's columns, because it is known when a journal is read: to read a column costs as much
// as to write one.
const (
	headColumns = "number, workflow_id, workflow, pattern, status, owner, wake, created, ended, " +
		"last, cause, crashes, " +
		"mail, chain, parent, keep, retain, error"
	entryColumns = "seq, kind, status, scope, name, key, occ, at, took, spill, detail, data"
)

// headWidth is the number of columns of a head.
const headWidth = 18

// head returns the head in a row. A pattern or status that is out of range becomes a number that
// names none.
func (s *Store) head(row []driver.Value) journal.Head { return headOf(s.database, row) }

func headOf(database string, row []driver.Value) journal.Head {
	n := journal.Number(integer(row[0]))
	return journal.Head{
		Number: n, ID: journal.MakeRunID(database, n), WorkflowID: str(row[1]),
		Workflow: str(row[2]),
		Pattern:  journal.Pattern(small(row[3])), Status: journal.Status(small(row[4])),
		Owner: journal.EngineID(integer(row[5])), Wake: moment(row[6]), Created: moment(row[7]),
		Ended: moment(row[8]), Last: integer(row[9]), Cause: str(row[10]),
		Crashes: int(integer(row[11])),
		Mail:    integer(row[12]), Chain: journal.Number(integer(row[13])),
		Parent: journal.Number(integer(row[14])),
		Keep:   time.Duration(integer(row[15])), Retain: journal.Retention(str(row[16])),
		Error: str(row[17]),
	}
}

// entry returns the entry of a run in a row, or a CorruptError.
func entry(run journal.Number, row []driver.Value) (journal.Entry, error) {
	e, err := scan(run, row)
	if err == nil {
		err = e.Check()
	}
	return e, err
}

// scan returns the entry in a row without checking it.
func scan(run journal.Number, row []driver.Value) (journal.Entry, error) {
	e := journal.Entry{
		Run: run, Seq: integer(row[0]), Kind: journal.Kind(small(row[1])),
		Status: journal.Status(small(row[2])),
		Op: journal.Op{
			Scope: integer(row[3]), Name: str(row[4]), Key: str(row[5]), Occ: int(integer(row[6])),
		},
		At: moment(row[7]), Took: time.Duration(integer(row[8])),
		Spill: journal.Number(integer(row[9])),
		Data:  blob(row[11]),
	}
	detail, err := journal.DecodeDetail([]byte(str(row[10])))
	if err != nil {
		return e, &journal.CorruptError{
			Run: e.Run, Seq: e.Seq, Reason: fmt.Sprintf("its detail: %v", err),
		}
	}
	e.Detail = detail
	return e, nil
}

// messageColumns are the columns of a message, in the order of entryColumns, and then its sender's
// ID.
const messageColumns = "number, kind, null, scope, name, key, occ, at, null, spill, detail, " +
	"data, id"

// message returns the message to a run in a row, or a CorruptError.
func message(run journal.Number, row []driver.Value) (journal.Entry, error) {
	e, err := scan(run, row)
	if err != nil {
		return e, err
	}
	if id := str(row[12]); id != "" {
		if e.Detail == nil {
			e.Detail = new(journal.Detail)
		}
		e.Detail.Message = id
	}
	return e, e.Check()
}

// integer reads a number; null is zero.
func integer(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

// small reads the number of a kind, status or pattern. A number that is out of range becomes 255,
// which names none.
func small(v driver.Value) uint8 {
	n := integer(v)
	if n < 0 || n > math.MaxUint8 {
		return math.MaxUint8
	}
	return uint8(n)
}

// str reads a text; null is empty.
func str(v driver.Value) string {
	s, _ := v.(string)
	return s
}

// blob reads bytes. Only null becomes nil. The driver returns a nil slice for empty bytes; blob
// returns an empty one.
func blob(v driver.Value) []byte {
	if v == nil {
		return nil
	}
	if b, ok := v.([]byte); ok && b != nil {
		return b
	}
	return []byte{}
}

// moment reads a time; null is the zero time.
func moment(v driver.Value) time.Time {
	n, ok := v.(int64)
	if !ok {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// nanos returns a time as it is stored: the nearest time that 64 bits can hold.
func nanos(t time.Time) driver.Value {
	switch {
	case t.IsZero():
		return nil
	case t.Before(earliest):
		return int64(math.MinInt64)
	case t.After(latest):
		return int64(math.MaxInt64)
	}
	return t.UnixNano()
}

// Only times between the years 1677 and 2262 can be stored.
var earliest, latest = time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)

// stored returns a time as it is read back from the database.
func stored(t time.Time) time.Time { return t.Round(0).UTC() }

// failure returns the text with which a run failed as it is stored: null if the run has not failed.
func failure(h *journal.Head) driver.Value {
	if !h.Status.IsFailure() {
		return nil
	}
	return h.Error
}

// orNull returns a value, or null for the zero value of its type. Null is cheaper to bind than a
// number and much cheaper than a text.
func orNull[V int64 | string](v V) driver.Value {
	var zero V
	if v == zero {
		return nil
	}
	return v
}
