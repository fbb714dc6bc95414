// Package farm keeps PostgreSQL databases that tests have left, and empties them for the next
// tests. To create and drop a database costs more than most tests, and so does a new connection,
// whose server process knows no table yet: the farm keeps one to each database.
package farm

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/internal/testpg"
)

// A Farm has empty databases for the subtests of one test.
type Farm struct {
	create func() string // makes an empty database
	empty  string        // the statement that empties one
	mu     sync.Mutex
	free   []*database
	used   map[string]*database // by URL
}

type database struct {
	url  string
	mu   sync.Mutex
	conn *pgx.Conn // nil until the first statement
}

// patience is how long a statement may wait, for a transaction that a test has left open.
const patience = time.Minute

// drop takes the schema of the driver away, so that the next test makes it.
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

// New makes a database for each subtest that runs at the same time, on the server of all tests. It
// makes them itself, so that t is skipped if there is no PostgreSQL: a subtest cannot skip its
// parent.
func New(t *testing.T) *Farm { return Of(t, func() string { return testpg.URL(t) }) }

// Of makes a farm of databases that create makes.
func Of(t *testing.T, create func() string) *Farm {
	f := &Farm{create: create, empty: drop, used: map[string]*database{}}
	for range runtime.GOMAXPROCS(0) {
		f.free = append(f.free, &database{url: create()})
	}
	t.Cleanup(func() {
		for _, d := range f.free {
			d.close()
		}
	})
	return f
}

// Cleared makes the farm leave the schema in the databases that it empties.
func (f *Farm) Cleared() *Farm {
	f.empty = clear
	return f
}

// URL returns the URL of an empty database for a test. It belongs to the farm again when the test
// has ended, unless it cannot be emptied.
func (f *Farm) URL(t *testing.T) string {
	d := f.take()
	t.Cleanup(func() {
		err := d.execute(f.empty)
		f.mu.Lock()
		defer f.mu.Unlock()
		if delete(f.used, d.url); err == nil {
			f.free = append(f.free, d)
		} else {
			d.close()
		}
	})
	return d.url
}

func (f *Farm) take() *database {
	f.mu.Lock()
	defer f.mu.Unlock()
	var d *database
	if n := len(f.free); n > 0 {
		d, f.free = f.free[n-1], f.free[:n-1]
	} else {
		d = &database{url: f.create()}
	}
	f.used[d.url] = d
	return d
}

// Execute executes a statement in the database of a test that has not ended, without the driver.
func (f *Farm) Execute(url, sql string, args ...any) error {
	f.mu.Lock()
	d := f.used[url]
	f.mu.Unlock()
	if d == nil {
		return fmt.Errorf("the farm has no database %s", url)
	}
	return d.execute(sql, args...)
}

func (d *database) close() {
	if d.conn != nil {
		_ = d.conn.Close(context.Background())
	}
}

func (d *database) execute(sql string, args ...any) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if d.conn == nil || d.conn.IsClosed() {
		if d.conn, err = pgx.Connect(ctx, d.url); err != nil {
			return err
		}
	}
	_, err = d.conn.Exec(ctx, sql, args...)
	return err
}
