package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Load returns entries of one journal in order, or messages of one inbox. If a row cannot be
// read or is missing, Load returns the entries before it and a CorruptError.
func (s *Store) Load(ctx context.Context, n journal.Number, r store.Range) ([]journal.Entry,
	error) {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	var entries []journal.Entry
	sql, args := rangeOf(n, r)
	var b batch
	b.add(sql, args...).each(func(rows pgx.Rows) error {
		e, err := scanRange(rows, n, r)
		if err == nil {
			entries = append(entries, e)
		}
		return err
	})
	err = b.send(ctx, s.pool)
	if whole, missing := r.Whole(n, entries); missing != nil {
		return whole, missing
	}
	if isCorrupt(err) {
		return entries, err
	}
	return entries, s.finished(err)
}

const payloadColumn = ", (select s.data from perdure.spilled s where s.id = spill)"

// isThere holds if the head of the run is there: rows that a purge has left behind belong to
// no run.
const isThere = " and (select true from perdure.heads where number = $1)"

// rangeOf returns the statement for a range, and its arguments. There are only few different
// statements.
func rangeOf(n journal.Number, r store.Range) (sql string, args []any) {
	columns, table, key := "0::bigint, "+entryColumns, "perdure.entries where run = $1"+isThere,
		"seq"
	switch {
	case len(r.Ends) > 0:
		sql, args = rangeOfEnds(r)
		return sql, args
	case r.Inbox && n == 0:
		columns, table, key = "0::bigint, "+messageColumns+", workflow_id, until",
			"perdure.unrouted where $1::bigint = 0", "number"
	case r.Inbox:
		columns, key = "0::bigint, "+messageColumns+", null::text, null::bigint", "number"
		table = "perdure.messages where holder = (select coalesce(inbox, number) from " +
			"perdure.heads where number = $1) and taken is null"
	}
	columns += payload(r)
	args = []any{int64(n), pgtype.Int8{Int64: int64(r.Limit), Valid: r.Limit > 0}}
	if r.Inbox && r.Name != "" {
		table += " and name = $3"
		args = append(args, r.Name)
	}
	if r.Tail {
		return "select * from (select " + columns + " from " + table + " order by " + key +
			" desc limit $2) t order by 2", args
	}
	table += fmt.Sprintf(" and %s >= $%d", key, len(args)+1)
	return "select " + columns + " from " + table + " order by " + key + " limit $2",
		append(args, r.From)
}

// payload returns the column of the spilled payload, or null if the range does not ask for
// payloads.
func payload(r store.Range) string {
	if r.Payloads {
		return payloadColumn
	}
	return ", null::bytea"
}

// rangeOfEnds returns the statement for the last entries of runs that have ended.
func rangeOfEnds(r store.Range) (sql string, args []any) {
	runs := make([]int64, len(r.Ends))
	for i, n := range r.Ends {
		runs[i] = int64(n)
	}
	return "select h.number, " + of("e", entryColumns) + payload(r) +
		` from unnest($1::bigint[]) with ordinality as r (run, place)
join perdure.heads h on h.number = r.run and h.ended is not null
join perdure.entries e on e.run = h.number and e.seq = h.last order by r.place`, []any{runs}
}

// scanRange reads a row of a range.
func scanRange(rows pgx.Rows, n journal.Number, r store.Range) (e journal.Entry, err error) {
	var row entryRow
	var run int64
	into := append([]any{&run}, row.into()...)
	if r.Inbox && len(r.Ends) == 0 {
		into = append(into, &row.id, &row.extra, &row.until)
	}
	if err := rows.Scan(append(into, &row.payload)...); err != nil {
		return e, err
	}
	switch {
	case len(r.Ends) > 0:
		e, err = row.entry(journal.Number(run))
	case r.Inbox:
		e, err = row.message(n)
	default:
		e, err = row.entry(n)
	}
	if err == nil && r.Inbox && n == 0 && len(r.Ends) == 0 {
		if e.Detail == nil {
			e.Detail = new(journal.Detail)
		}
		e.Detail.To, e.Detail.Due = row.extra.String, moment(row.until)
	}
	if err == nil && r.Payloads {
		err = row.spilled(&e)
	}
	return e, err
}

// spilled sets the data of an entry to its payload, if that is kept in a row of its own.
func (r *entryRow) spilled(e *journal.Entry) error {
	if e.Spill == 0 {
		return nil
	}
	if r.payload == nil {
		return &journal.CorruptError{Run: e.Run, Seq: e.Seq, Reason: "its payload is not there"}
	}
	e.Data = r.payload
	return nil
}

// Spill makes one large payload durable. It may be sent again.
func (s *Store) Spill(ctx context.Context, engine journal.EngineID, id journal.Number,
	data []byte) error {
	if err := s.writable(); err != nil {
		return err
	}
	ctx, done, err := s.call(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer done()
	if data == nil {
		data = []byte{}
	}
	var b batch
	b.add(holdEngine, int64(engine)).or(store.ErrFenced)
	b.add(insertSpilled, []int64{int64(id)}, [][]byte{data})
	err = b.send(ctx, s.pool)
	if isData(err) {
		err = &store.DataError{Err: err}
	}
	return s.finished(err)
}

// errReadOnly is the error of a write through a handle that was opened for reading only.
var errReadOnly = errors.New("postgres: opened for reading only")

// writable returns an error if the handle may not write.
func (s *Store) writable() error {
	if s.options.ReadOnly {
		return errReadOnly
	}
	return nil
}

const (
	selectNow = `select clock_timestamp()`

	selectCounts = `select (select count(*) from perdure.heads), (select count(*) from perdure.unrouted), (select count(*) from perdure.owed),
    (select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_class c
        where c.relnamespace = to_regnamespace('perdure') and c.relkind = 'r'),
    clock_timestamp()`

	selectEngines = `select id, host, pid, build, slots, since, seen, leased, leased <= clock_timestamp(), drains, held_runs, held_steps, workflows, loops,
    (select count(*) from perdure.heads h where h.owner = e.id and h.owner > 0 and h.ended is null)
from perdure.engines e order by id`

	selectEnginesAlone = `select id, host, pid, build, slots, since, seen, leased, leased <= clock_timestamp(), drains, held_runs, held_steps, workflows, loops, 0::bigint
from perdure.engines e order by id`
)

// Info returns a description of the store and of the engines that use it.
func (s *Store) Info(ctx context.Context) (store.Info, error) { return s.info(ctx, true) }

// Brief is [store.Briefer].
func (s *Store) Brief(ctx context.Context) (store.Info, error) { return s.info(ctx, false) }

func (s *Store) info(ctx context.Context, counted bool) (store.Info, error) {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return store.Info{}, err
	}
	defer done()
	info := store.Info{
		Driver: "postgres", Database: s.database, Schema: schemaVersion,
		Durability: "a commit survives the loss of power: fsync, full_page_writes and " +
			"synchronous_commit are on",
	}
	if s.options.Unsafe {
		info.Durability = "not checked: what the server's settings promise"
	}
	var b batch
	engines := selectEnginesAlone
	if counted {
		engines = selectEngines
		b.add(selectCounts).each(func(rows pgx.Rows) error {
			return rows.Scan(&info.Runs, &info.Unrouted, &info.Outbox, &info.Bytes, &info.Now)
		})
	} else {
		b.add(selectNow).each(func(rows pgx.Rows) error { return rows.Scan(&info.Now) })
	}
	readSettings(&b, &info.Settings)
	b.add(engines).each(func(rows pgx.Rows) error {
		var e store.Engine
		var id int64
		var pid, slots, runs, steps int32
		var since, drains pgtype.Int8
		err := rows.Scan(&id, &e.Host, &pid, &e.Build, &slots, &since, &e.Seen, &e.Until,
			&e.Expired, &drains, &runs, &steps, &e.Workflows, &e.Loops,
			&e.Runs)
		e.Drain = store.Drain{Until: moment(drains), Runs: int(runs), Steps: int(steps)}
		e.ID, e.PID, e.Slots, e.Since = journal.EngineID(id), int(pid), int(slots), moment(since)
		info.Engines = append(info.Engines, e)
		return err
	})
	if err := b.send(ctx, s.pool); err != nil {
		return store.Info{}, s.finished(err)
	}
	return info, nil
}
