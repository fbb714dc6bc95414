package postgres

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/internal/testpg"
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

// The modes in which the driver is tested against the contract: how statements are sent, and
// through which proxies. One mode has a server that keeps what it acknowledges. The others show
// how statements are sent: their server does not wait for its disk, and they leave out the rows
// that move tens of megabytes.
var modes = map[string]struct {
	query   string // of the address
	options Options
}{
	"prepared": {query: forOthers},
	"simple": {
		query: "&default_query_exec_mode=simple_protocol", options: Options{Unsafe: true},
	},
	"pooler": {options: Options{Pooler: true, Unsafe: true}},
}

// spec: P-1, P-2
func TestConformance(t *testing.T) {
	kept := newFarm(t).cleared()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			f, run := kept, storetest.Run
			if mode.options.Unsafe {
				run = storetest.RunLight
				server := testpg.Start(t, testpg.Setting("fsync", "off"))
				f = farmOf(server.URL).cleared()
			}
			run(t, func(t *testing.T) storetest.Database {
				return f.database(t, mode.query, mode.options)
			})
		})
	}
}

// A farm keeps databases that tests have left, and empties them. Creating and dropping a
// database costs more than a check.
type farm struct {
	create func() string // makes an empty database
	empty  string        // the statement that empties one
	mu     sync.Mutex
	free   []string
}

// drop takes the schema away, so that the next test makes it.
const drop = "drop schema if exists perdure cascade"

// clear leaves the schema as a migration makes it, which is faster than to make it again.
const clear = `do $$
declare name text;
begin
	for name in select tablename from pg_tables where schemaname = 'perdure'
	and tablename not in ('meta', 'kinds', 'statuses', 'patterns') loop
		execute format('delete from perdure.%I', name);
	end loop;
	for name in select sequencename from pg_sequences where schemaname = 'perdure' loop
		execute format('alter sequence perdure.%I restart', name);
	end loop;
	if to_regclass('perdure.meta') is not null then
		delete from perdure.meta where key not in ('database', 'schema');
	end if;
end $$`

// newFarm makes a database for each subtest that runs at the same time. It makes them itself,
// so that t is skipped if there is no PostgreSQL: a subtest cannot skip its parent.
func newFarm(t *testing.T) *farm { return farmOf(func() string { return testpg.URL(t) }) }

// farmOf makes a farm of databases that create makes.
func farmOf(create func() string) *farm {
	f := &farm{create: create, empty: drop}
	for range runtime.GOMAXPROCS(0) {
		f.free = append(f.free, create())
	}
	return f
}

// cleared makes the farm leave the schema in the databases that it empties.
func (f *farm) cleared() *farm {
	f.empty = clear
	return f
}

// url returns the URL of an empty database for a test.
func (f *farm) url(t *testing.T) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.free)
	if n == 0 {
		return f.create()
	}
	url := f.free[n-1]
	f.free = f.free[:n-1]
	t.Cleanup(func() {
		if err := execute(t, url, f.empty); err == nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.free = append(f.free, url)
		}
	})
	return url
}

// database returns an empty database for the suite.
func (f *farm) database(t *testing.T, query string, options Options) storetest.Database {
	url := f.url(t)
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
	f := newFarm(t).cleared()
	for seed := range uint64(8) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			m := memory.New()
			storetest.Differ(t,
				storetest.Database{
					Open: func() (store.Store, error) { m = m.Reopen(); return m, nil },
				},
				f.database(t, "", Options{}), seed, 400)
		})
	}
}
