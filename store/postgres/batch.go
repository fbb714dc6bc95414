package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/store"
)

// A batch is the statements of one round trip. Each statement sees the writes of the
// statements before it and everything that others have committed by then. They are one
// transaction: PostgreSQL begins it by itself and ends it when the whole batch has arrived.
// If one statement fails, none of them has any effect.
type batch struct {
	queries []query
}

// A query is a statement of a batch.
type query struct {
	sql    string
	args   []any
	row    func(pgx.Rows) error // reads one row of its result; nil for no result
	refuse error                // the error that a division by zero stands for
}

// add adds a statement.
func (b *batch) add(sql string, args ...any) *query {
	b.queries = append(b.queries, query{sql: sql, args: args})
	return &b.queries[len(b.queries)-1]
}

// each makes f read each row of the result.
func (q *query) each(f func(pgx.Rows) error) *query {
	q.row = f
	return q
}

// or sets the error that a division by zero of the statement stands for. Statements refuse by
// dividing by zero: the statements after it are then not executed, and those before it have
// no effect.
func (q *query) or(refusal error) *query {
	q.refuse = refusal
	return q
}

// A sender sends batches. It is a connection, a pool of connections, or a transaction of the
// user's.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// send sends the batch in one round trip. If it returns nil and the batch is a transaction of
// its own, all of it is durable.
func (b *batch) send(ctx context.Context, to sender) error {
	var all pgx.Batch
	for i := range b.queries {
		all.Queue(b.queries[i].sql, b.queries[i].args...)
	}
	results := to.SendBatch(ctx, &all)
	for i := range b.queries {
		if err := b.queries[i].read(results); err != nil {
			return errors.Join(err, quiet(results.Close(), err))
		}
	}
	return results.Close() // the batch is committed when the server confirms its end
}

// read reads the result of a query.
func (q *query) read(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return q.explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		if q.row == nil {
			continue
		}
		if err := q.row(rows); err != nil {
			return err
		}
	}
	return q.explain(rows.Err())
}

func (q *query) explain(err error) error {
	if q.refuse != nil && code(err) == divisionByZero {
		return q.refuse
	}
	return err
}

// quiet returns err, or nil if err only repeats the known error or the known error is a
// refusal.
func quiet(err, known error) error {
	if err == nil || code(err) != "" && code(err) == code(known) || errors.Is(err, known) {
		return nil
	}
	var refused *store.DataError
	if errors.As(known, &refused) || errors.Is(known, store.ErrFenced) {
		return nil
	}
	return fmt.Errorf("and: %w", err)
}
