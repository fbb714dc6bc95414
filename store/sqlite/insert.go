package sqlite

import (
	"database/sql/driver"
	"fmt"
	"strings"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An inserter writes entries. Most entries are plain: results of steps without scope, key and
// detail. The inserter gathers plain entries and writes many at a time: to begin and end a
// statement costs as much as the row itself, and each argument that is left out saves about as much
// as a column. It writes the other entries at once, one by one. Within a transaction the order does
// not matter.
type inserter struct {
	conn                *conn
	many, single, whole *stmt
	// pending is the number of plain entries that are bound to many.
	pending int
}

// rowsAtATime is how many plain entries one statement writes. More gain nothing.
const rowsAtATime = 64

const (
	plainColumns = 9
	plainValues  = "(?, ?, ?, ?, ?, ?, ?, ?, ?)"
	insertPlain  = "insert into perdure_entries (run, seq, kind, status, name, occ, at, took, " +
		"data) values " + plainValues
	insertWhole = "insert into perdure_entries (run, " + entryColumns +
		") values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

var insertMany = insertPlain + strings.Repeat(", "+plainValues, rowsAtATime-1)

func newInserter(c *conn) (*inserter, error) {
	in := &inserter{conn: c}
	for sql, s := range map[string]**stmt{
		insertMany: &in.many, insertPlain: &in.single, insertWhole: &in.whole,
	} {
		var err error
		if *s, err = c.prepare(sql); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// add writes an entry, at the latest when flush is called.
func (in *inserter) add(e *journal.Entry) error {
	if e.Op.Scope != 0 || e.Op.Key != "" || e.Spill != 0 || e.Detail != nil ||
		e.Kind == journal.AttributeSet {
		return in.addWhole(e)
	}
	a := in.many.args[in.pending*plainColumns:][:plainColumns]
	a[0].Value, a[1].Value, a[2].Value, a[3].Value = int64(e.Run), e.Seq, int64(e.Kind),
		orNull(int64(e.Status))
	a[4].Value, a[5].Value = orNull(e.Op.Name), orNull(int64(e.Op.Occ))
	a[6].Value, a[7].Value, a[8].Value = nanos(e.At), orNull(int64(e.Took)), e.Data
	in.pending++
	if in.pending < rowsAtATime {
		return nil
	}
	in.pending = 0
	_, err := in.many.exec()
	return err
}

// flush writes the gathered entries.
func (in *inserter) flush() error {
	for i := range in.pending {
		for j := range plainColumns {
			in.single.args[j].Value = in.many.args[i*plainColumns+j].Value
		}
		if _, err := in.single.exec(); err != nil {
			return err
		}
	}
	in.pending = 0
	return nil
}

func (in *inserter) addWhole(e *journal.Entry) error {
	detail, err := journal.EncodeDetail(e.Detail)
	if err != nil {
		return &store.DataError{
			Err: fmt.Errorf("the detail of entry %d of run %d: %w", e.Seq, e.Run, err),
		}
	}
	a := in.whole.args
	a[0].Value, a[1].Value, a[2].Value, a[3].Value = int64(e.Run), e.Seq, int64(e.Kind),
		orNull(int64(e.Status))
	a[4].Value, a[5].Value, a[6].Value, a[7].Value = orNull(e.Op.Scope), orNull(e.Op.Name),
		orNull(e.Op.Key), orNull(int64(e.Op.Occ))
	a[8].Value, a[9].Value, a[10].Value, a[11].Value = nanos(e.At), orNull(int64(e.Took)),
		orNull(int64(e.Spill)), orNull(string(detail))
	a[12].Value = e.Data
	if e.Spill != 0 {
		a[12].Value = nil
	}
	if _, err = in.whole.exec(); err != nil {
		return err
	}
	return in.follow(e)
}

// The statements for the effects of an entry.
const (
	takeMessage = `update perdure_messages set taken = ?, spill = null, detail = null, data = null where holder = ? and number = ? and taken is null
and (select inbox from perdure_heads where number = ?) is null`

	// takeInherited is takeMessage for a run that has the inbox of an earlier run.
	takeInherited = `update perdure_messages set taken = ?, spill = null, detail = null, data = null, holder = ?
where holder = (select inbox from perdure_heads where number = ?) and number = ? and taken is null`

	insertOutbox = `insert into perdure_owed (run, seq, workflow) select number, ?, workflow from perdure_heads where number = ?`

	setAttribute = `insert into perdure_attributes (run, name, value) values (?, ?, ?) on conflict (run, name) do update set value = excluded.value`

	removeAttribute = `delete from perdure_attributes where run = ? and name = ?`
)

// follow writes the effects of an entry: its large payload, the message that it takes, its place in
// the outbox, and attributes.
func (in *inserter) follow(e *journal.Entry) error {
	if e.Spill != 0 && e.Data != nil {
		if _, err := in.conn.exec(insertSpilled, int64(e.Spill), e.Data); err != nil {
			return err
		}
	}
	if e.Kind == journal.AttributeSet {
		if err := in.setAttribute(e); err != nil {
			return err
		}
	}
	d := e.Detail
	if d == nil {
		return nil
	}
	if d.Mail != 0 {
		if err := in.take(e); err != nil {
			return err
		}
	}
	if d.Tell {
		if _, err := in.conn.exec(insertOutbox, e.Seq, int64(e.Run)); err != nil {
			return err
		}
	}
	if e.Kind != journal.RunStarted {
		return nil
	}
	for name, value := range d.Attributes {
		if _, err := in.conn.exec(setAttribute, int64(e.Run), name, value); err != nil {
			return err
		}
	}
	return nil
}

// take takes the message that an entry names.
func (in *inserter) take(e *journal.Entry) error {
	rows, err := in.conn.exec(takeMessage, e.Seq, int64(e.Run), e.Detail.Mail, int64(e.Run))
	if err == nil && rows == 0 {
		rows, err = in.conn.exec(takeInherited, e.Seq, int64(e.Run), int64(e.Run), e.Detail.Mail)
	}
	if err == nil && rows == 0 {
		err = &store.DataError{
			Err: fmt.Errorf("entry %d of run %d takes message %d, which is not there", e.Seq, e.Run,
				e.Detail.Mail),
		}
	}
	return err
}

func (in *inserter) setAttribute(e *journal.Entry) error {
	sql, args := setAttribute, []driver.Value{int64(e.Run), e.Op.Name, string(e.Data)}
	if e.Data == nil {
		sql, args = removeAttribute, args[:2]
	}
	_, err := in.conn.exec(sql, args...)
	return err
}
