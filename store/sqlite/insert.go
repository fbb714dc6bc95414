package sqlite

import (
	"database/sql/driver"
	"fmt"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An inserter writes entries. Most are plain: results of steps without key,
// scope and detail. They have a statement of their own, with half the arguments,
// since each argument costs as much as a column.
type inserter struct {
	plain, whole *stmt
}

const (
	insertPlain = `insert into entries (run, seq, kind, name, occ, at, took, data) values (?, ?, ?, ?, ?, ?, ?, ?)`
	insertWhole = `insert into entries (` + entryColumns + `) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

func newInserter(c *conn) (*inserter, error) {
	plain, err := c.prepare(insertPlain)
	if err != nil {
		return nil, err
	}
	whole, err := c.prepare(insertWhole)
	return &inserter{plain: plain, whole: whole}, err
}

func (in *inserter) add(e *journal.Entry) error {
	if !isPlain(e) {
		return in.addWhole(e)
	}
	a := in.plain.args
	a[0].Value, a[1].Value, a[2].Value, a[3].Value = int64(e.Run), e.Seq, int64(e.Kind), orNull(e.Op.Name)
	a[4].Value, a[5].Value, a[6].Value, a[7].Value = orNull(int64(e.Op.Occ)), nanos(e.At), orNull(int64(e.Took)), e.Data
	_, err := in.plain.exec()
	return err
}

func (in *inserter) flush() error { return nil }

func isPlain(e *journal.Entry) bool {
	return e.Status == 0 && e.Op.Scope == 0 && e.Op.Key == "" && e.Spill == 0 && e.Detail == nil
}

func (in *inserter) addWhole(e *journal.Entry) error {
	detail, err := journal.EncodeDetail(e.Detail)
	if err != nil {
		return &store.DataError{Err: fmt.Errorf("the detail of entry %d of run %d: %w", e.Seq, e.Run, err)}
	}
	a := in.whole.args
	a[0].Value, a[1].Value, a[2].Value, a[3].Value = int64(e.Run), e.Seq, int64(e.Kind), orNull(int64(e.Status))
	a[4].Value, a[5].Value, a[6].Value, a[7].Value = orNull(e.Op.Scope), orNull(e.Op.Name), orNull(e.Op.Key), orNull(int64(e.Op.Occ))
	a[8].Value, a[9].Value, a[10].Value, a[11].Value = nanos(e.At), orNull(int64(e.Took)), orNull(int64(e.Spill)), orNull(string(detail))
	a[12].Value = driver.Value(e.Data)
	_, err = in.whole.exec()
	return err
}
