package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

const schemaVersion = 6

//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is the advisory lock ("perd") that lets one handle migrate at a time.
const migrationLock = 0x70657264

// A reader reads one row. It is a pool, a connection or a transaction.
type reader interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// migrate upgrades the schema to this version in one transaction. A process that dies during
// the migration leaves the old schema unchanged. If two handles migrate at the same time, the
// second waits for the first and then finds nothing to do.
func (s *Store) migrate(ctx context.Context) error {
	if version, err := s.version(ctx, s.pool); err != nil || version == schemaVersion {
		return err
	}
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`,
			int64(migrationLock)); err != nil {
			return err
		}
		version, err := s.version(ctx, tx)
		if err != nil || version == schemaVersion {
			return err
		}
		return upgrade(ctx, tx, version)
	})
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// upgrade upgrades the schema from a version to this one.
func upgrade(ctx context.Context, tx pgx.Tx, version int) error {
	if version == 0 {
		var there bool // "if not exists" needs the right to create a schema in any case
		if err := tx.QueryRow(
			ctx, `select exists (select from pg_catalog.pg_namespace where nspname = 'perdure')`).
			Scan(&there); err != nil {
			return err
		}
		if !there {
			if _, err := tx.Exec(ctx, `create schema perdure`); err != nil {
				return err
			}
		}
	}
	for v := version + 1; v <= schemaVersion; v++ {
		sql, err := migrations.ReadFile(fmt.Sprintf("migrations/%04d.sql", v))
		if err != nil {
			return err
		}
		// The file has many statements.
		if _, err := tx.Exec(ctx, string(sql), pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("to version %d: %w", v, err)
		}
	}
	var all pgx.Batch
	put := func(table, column string, number int, name string) {
		all.Queue("insert into perdure."+table+" ("+column+", name) values ($1, $2) on conflict ("+
			column+") do update set name = excluded.name", int16(number), name)
	}
	for _, k := range journal.Kinds() {
		put("kinds", "kind", int(k), k.String())
	}
	for _, s := range journal.Statuses() {
		put("statuses", "status", int(s), s.String())
	}
	for p := journal.PatternWorkflow; p <= journal.PatternOrchestrator; p++ {
		put("patterns", "pattern", int(p), p.String())
	}
	const set = "insert into perdure.meta (key, value) values ($1, $2) on conflict (key) do "
	all.Queue(set+"nothing", "database", store.NewIdentity())
	all.Queue(set+"update set value = excluded.value", "schema", strconv.Itoa(schemaVersion))
	return tx.SendBatch(ctx, &all).Close()
}

// version returns the version of the schema, zero if there is no schema. It refuses a newer
// version, and a schema of this name that belongs to another application.
func (s *Store) version(ctx context.Context, from reader) (int, error) {
	// This reads the tables of the catalog, not functions such as to_regclass. Those may
	// return a cached answer from before this session waited for a lock.
	var tables, meta int64
	err := from.QueryRow(ctx, `select count(*), count(*) filter (where c.relname = 'meta')
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where n.nspname = 'perdure'`).
		Scan(&tables, &meta)
	if err != nil || tables == 0 {
		return 0, err
	}
	if meta == 0 {
		return 0, fmt.Errorf("%w: its schema perdure has other tables", store.ErrForeign)
	}
	var text string
	if err := from.QueryRow(ctx, `select value from perdure.meta where key = 'schema'`).
		Scan(&text); err != nil {
		if errors.Is(err, pgx.ErrNoRows) || code(err) == noColumn {
			err = fmt.Errorf("%w: its schema perdure has no version", store.ErrForeign)
		}
		return 0, err
	}
	version, err := strconv.Atoi(text)
	if err != nil || version < 1 {
		return 0, fmt.Errorf("%w: the version of its schema perdure is %q", store.ErrForeign, text)
	}
	if version > schemaVersion {
		return 0, &store.SchemaError{Has: version, Knows: schemaVersion}
	}
	return version, nil
}

// identify reads the identity of the database.
func (s *Store) identify(ctx context.Context) error {
	err := s.pool.QueryRow(ctx, `select value from perdure.meta where key = 'database'`).
		Scan(&s.database)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: it has no identity", store.ErrForeign)
	}
	return err
}
