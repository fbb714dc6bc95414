package barrier

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// DDL is the statement that makes the table, for PostgreSQL and for SQLite. A row has about 150
// bytes and the result. Made is in milliseconds since 1970 by the clock of the process that wrote
// the row.
const DDL = `create table if not exists perdure_barrier (
	run    text   not null,
	step   text   not null,
	slot   text   not null,
	phase  text   not null,
	result bytea,
	made   bigint not null,
	primary key (run, step, slot)
)`

// The statements. The arguments occur in their order for the first time, because some drivers for
// SQLite count names.
const (
	insertRow    = `insert into perdure_barrier (run, step, slot, phase, result, made) values ($1, $2, $3, $4, $5, $6) on conflict do nothing`
	selectRow    = `select phase, result from perdure_barrier where run = $1 and step = $2 and slot = $3`
	updateResult = `update perdure_barrier set result = $1 where run = $2 and step = $3 and slot = $4`
	deleteOld    = `delete from perdure_barrier where made < $1`
	probe        = `select run, step, slot, phase, result, made from perdure_barrier where 1 = 0`
)

// Create makes the table if it does not exist. It may be called at every start, by many processes
// at a time. A user without the right to make tables can call it, too, if the table exists. It
// fails if another table has the name.
func Create(ctx context.Context, db *sql.DB) error {
	if db == nil {
		return invalid("a database is needed")
	}
	_, err := db.ExecContext(ctx, DDL)
	// On PostgreSQL it fails for one of two that call it at the same time, and for users without
	// the right to make tables. What counts is whether the table exists.
	if lacks := there(ctx, db); lacks != nil {
		return fmt.Errorf("barrier: create the table: %w", errors.Join(err, lacks))
	}
	return nil
}

// there returns an error if the table does not exist or is another one.
func there(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, probe)
	if err != nil {
		return err
	}
	defer rows.Close()
	rows.Next()
	return rows.Err()
}

// Clean removes the rows that were made before a time, and returns how many there were. A step that
// is executed after its row is gone does everything again, and a cancel whose try is gone does
// nothing. So choose a time that is further back than the longest run lasts, with its waits and
// suspensions, and further back than a late execution of a step that the run has given up. Clean
// reads the whole table, in one transaction.
func Clean(ctx context.Context, db *sql.DB, before time.Time) (int64, error) {
	if db == nil {
		return 0, invalid("a database is needed")
	}
	done, err := db.ExecContext(ctx, deleteOld, before.UnixMilli())
	if err != nil {
		return 0, fmt.Errorf("barrier: clean: %w", err)
	}
	return done.RowsAffected()
}
