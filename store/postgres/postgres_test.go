package postgres

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/internal/testpg/farm"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// forOthers are settings that a role or a database may have for other applications: time
// limits that each commit exceeds, and an isolation that hides the commits of others.
const forOthers = "&statement_timeout=1ms&lock_timeout=1ms" +
	"&default_transaction_isolation=serializable&search_path=nowhere&enable_indexscan=off" +
	"&datestyle=german&bytea_output=escape&standard_conforming_strings=off"

// spec: P-1, P-2
func TestConformance(t *testing.T) {
	f := farm.New(t).Cleared()
	storetest.Run(t, func(t *testing.T) storetest.Database {
		return databaseOf(f, t, forOthers, Options{})
	})
}

var seed = flag.Uint64("seed", 0, "the seed of random rows and histories; 0 chooses a new seed")

// TestConformanceOfModes tests the other ways in which the driver sends its statements: also that a
// commit is the same in a transaction of the caller. Each has a quarter of the rows of the
// contract, and each time other ones. Their server does not wait for its disk.
//
// spec: P-1, P-2, B-4
func TestConformanceOfModes(t *testing.T) {
	server := testpg.Start(t, testpg.Setting("fsync", "off"))
	f := farm.Of(t, server.URL).Cleared()
	way := func(query string, options Options) func(t *testing.T) storetest.Database {
		return func(t *testing.T) storetest.Database { return databaseOf(f, t, query, options) }
	}
	of := cmp.Or(*seed, rand.Uint64())
	storetest.RunShared(t, of, map[string]func(t *testing.T) storetest.Database{
		"simple": way("&default_query_exec_mode=simple_protocol", Options{Unsafe: true}),
		"pooler": way("", Options{Pooler: true, Unsafe: true}),
		"in transactions": func(t *testing.T) storetest.Database {
			url := f.URL(t)
			return inTransactions(t, url, at(t, url, Options{Unsafe: true}))
		},
	})
}

// databaseOf returns an empty database for the suite.
func databaseOf(f *farm.Farm, t *testing.T, query string, options Options) storetest.Database {
	url := f.URL(t)
	d := at(t, url, options)
	d.Open = func() (store.Store, error) { return OpenWith(t.Context(), url+query, options) }
	return d
}

// at returns the database at a URL for the suite.
func at(t *testing.T, url string, options Options) storetest.Database {
	return storetest.Database{
		Open: func() (store.Store, error) { return OpenWith(t.Context(), url, options) },
		Lapse: func(engine journal.EngineID) error {
			return execute(t, url, "update perdure.engines set leased = clock_timestamp() - "+
				"interval '1 second' where id = $1", int64(engine))
		},
		Corrupt: func(run journal.Number, seq int64) error {
			return execute(t, url, "update perdure.entries set detail = '{spoiled' where run = "+
				"$1 and seq = $2", int64(run), seq)
		},
		Lose: func(run journal.Number, seq int64) error {
			return execute(t, url, "delete from perdure.entries where run = $1 and seq = $2",
				int64(run), seq)
		},
		Pass: func(by time.Duration) error {
			return errors.Join(
				execute(t, url, `update perdure.limits set "full" = "full" - $1, clock = clock - $1`,
					int64(by)),
				execute(t, url, "update perdure.slots set due = due - $1", int64(by)))
		},
		Written: func(f func()) (int64, error) { return rowsWritten(t, url, f) },
	}
}

// rowsWritten calls f and counts the rows that transactions have written since it began.
func rowsWritten(t *testing.T, url string, f func()) (rows int64, err error) {
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		return 0, err
	}
	defer c.Close(t.Context())
	var before int64
	if err := c.QueryRow(t.Context(), "select pg_current_xact_id()::text::bigint").
		Scan(&before); err != nil {
		return 0, err
	}
	f()
	for _, table := range []string{
		"heads", "entries", "messages", "spilled", "owed", "attributes", "unrouted",
	} {
		var n int64
		if err := c.QueryRow(t.Context(), "select count(*) from perdure."+table+
			" where xmin::text::bigint > $1", before).Scan(&n); err != nil {
			return 0, err
		}
		rows += n
	}
	return rows, nil
}

// execute executes a statement without the driver.
func execute(t *testing.T, url, sql string, args ...any) error {
	ctx := context.WithoutCancel(t.Context())
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // there may be a pooler in between
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, sql, args...)
	return err
}

// TestLikeMemory compares the driver with the store in memory.
//
// spec: P-2
func TestLikeMemory(t *testing.T) {
	f := farm.New(t).Cleared()
	of := cmp.Or(*seed, rand.Uint64())
	t.Logf("seed %d", of)
	for _, seed := range []uint64{of, of + 1} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			m := memory.New()
			storetest.Differ(t,
				storetest.Database{
					Open: func() (store.Store, error) { m = m.Reopen(); return m, nil },
				},
				databaseOf(f, t, "", Options{}), seed, 400)
		})
	}
}
