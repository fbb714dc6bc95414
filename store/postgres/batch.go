package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/store"
)

// A batch is what one round trip does: statements, each of which sees what those
// before it have written and what others have committed by then. They are one
// transaction: PostgreSQL ends the one that it has begun by itself when the whole
// batch has arrived, and where one of them fails, nothing of them has happened.
type batch struct {
	queries []query
}

// A query is a statement of a batch.
type query struct {
	sql    string
	args   []any
	row    func(pgx.Rows) error // reads one row of its result; nil for no result
	refuse error                // what its division by zero stands for
}

// add adds a statement.
func (b *batch) add(sql string, args ...any) *query {
	b.queries = append(b.queries, query{sql: sql, args: args})
	return &b.queries[len(b.queries)-1]
}

// each has f read each row of the result.
func (q *query) each(f func(pgx.Rows) error) *query {
	q.row = f
	return q
}

// or says what it means that the statement divides by zero, which is how one says
// no: nothing after it happens then, and nothing before it has happened.
func (q *query) or(refusal error) *query {
	q.refuse = refusal
	return q
}

// A sender sends batches: a connection, a pool of them, or a transaction of the
// user's.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// send makes the round trip. On nil all of it is durable, where it is a transaction
// by itself.
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
	return results.Close() // it is committed when the end of the batch is answered
}

// read takes the result of a query.
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

// quiet gives err unless it only repeats one that is known.
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
