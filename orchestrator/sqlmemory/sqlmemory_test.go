package sqlmemory_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/perdure/perdure/internal/faultproxy"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/orchestrator/memorytest"
	"github.com/perdure/perdure/orchestrator/sqlmemory"
)

type (
	value  = memorytest.Value
	change = orchestrator.Change[value]
	state  = orchestrator.State[value]
	memory = sqlmemory.Memory[value]
)

// A base is an empty database. Each open is as by another process.
type base struct {
	driver, at string
	dialect    sqlmemory.Dialect
}

func (b base) db(t testing.TB) *sql.DB {
	db, err := sql.Open(b.driver, b.at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func (b base) open(t testing.TB) *memory {
	m, err := sqlmemory.Open[value](context.Background(), b.db(t), b.dialect)
	if err != nil {
		panic(err) // of any goroutine
	}
	return m
}

func file(path, options string) base {
	return base{"sqlite", "file:" + filepath.ToSlash(path) + "?" + options, sqlmemory.SQLite}
}

const waits = "_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)"

func newSQLite(t testing.TB) base { return file(filepath.Join(t.TempDir(), "app.db"), waits) }

func newPostgres(t testing.TB) base {
	return base{"pgx", testpg.URL(t), sqlmemory.PostgreSQL}
}

// onBoth runs a test on SQLite, and on PostgreSQL if there is one.
func onBoth(t *testing.T, test func(t *testing.T, begin func(testing.TB) base)) {
	for name, begin := range map[string]func(testing.TB) base{
		"SQLite": newSQLite, "PostgreSQL": newPostgres,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, begin)
		})
	}
}

// spec
func TestAMemoryInADatabaseKeepsTheContract(t *testing.T) {
	onBoth(t, func(t *testing.T, begin func(testing.TB) base) {
		memorytest.Run(t, func(t *testing.T) memorytest.World {
			b := begin(t)
			return memorytest.World{
				Open: func() orchestrator.Memory[value] { return b.open(t) },
			}
		})
	})
}

// lock takes a lock that must be free.
func lock(t testing.TB, m *memory, subject string) orchestrator.Token {
	t.Helper()
	token, err := m.Lock(t.Context(), subject, time.Hour, nil)
	if err != nil || token == 0 {
		t.Fatalf("lock of %q: %d, %v", subject, token, err)
	}
	return token
}

// text returns the text and the version of a subject.
func text(t testing.TB, m *memory, subject string) string {
	t.Helper()
	s, err := m.Read(t.Context(), subject, nil)
	if err != nil || s == nil {
		t.Fatalf("read of %q: %v, %v", subject, s, err)
	}
	return fmt.Sprint(s.Value.Text, " ", s.Version)
}

// spec: A-15
func TestNamesAndStatesMayBeAnyText(t *testing.T) {
	onBoth(t, func(t *testing.T, begin func(testing.TB) base) {
		b := begin(t)
		m := b.open(t)
		long := make([]byte, 1290) // two are below the limit of PostgreSQL
		for i := range long {
			long[i] = byte(rand.Uint32())
		}
		parent := "p\x00\xff" + string(long)
		names := []string{
			"", "\x00", "\x00\x00", "\x00a", "0", "\\x00", "a\x00", "a\x00b", "\xff", "\xc3\x28",
			"é", "e\u0301", "'; drop table perdure_instances; --", "$1", "NOW", string(long),
		}
		meta := &orchestrator.Metadata{Parent: orchestrator.To(parent)}
		for _, n := range names {
			c := change{Next: value{Text: "\x00 of " + n}, Lock: lock(t, m, n)}
			if err := m.Write(t.Context(), n, c, meta); err != nil {
				t.Fatal(err)
			}
		}
		other := b.open(t)
		for _, n := range names {
			want := strings.ToValidUTF8("\x00 of "+n, "\ufffd") + " 1"
			if got := text(t, other, n); len(n) < 20 && got != want {
				t.Errorf("%q has %q", n, got)
			}
		}
		slices.Sort(names)
		got, err := other.Children(t.Context(), parent)
		if err != nil || !slices.Equal(got, names) {
			t.Errorf("the children are %q, %v", got, err)
		}
	})
}

// spec
func TestAParentIsKeptByWritesThatDoNotKnowIt(t *testing.T) {
	onBoth(t, func(t *testing.T, begin func(testing.TB) base) {
		m := begin(t).open(t)
		c := change{Lock: lock(t, m, "a")}
		for version, meta := range []*orchestrator.Metadata{
			nil, {}, {Parent: orchestrator.None}, {Parent: orchestrator.To("p")}, nil, {},
		} {
			if version > 0 {
				c.Prev = &state{Version: int64(version)}
			}
			if err := m.Write(t.Context(), "a", c, meta); err != nil {
				t.Fatal(err)
			}
			got, err := m.Children(t.Context(), "p")
			if want := version >= 3; err != nil || slices.Contains(got, "a") != want {
				t.Errorf("after write %d the children are %q, %v", version+1, got, err)
			}
		}
	})
}

// spec
func TestOfWritesUnderOneLockOneIsWrittenAndTheOthersAreConflicts(t *testing.T) {
	onBoth(t, func(t *testing.T, begin func(testing.TB) base) {
		const writers, versions = 4, 30
		b := begin(t)
		m := b.open(t)
		token := lock(t, m, "a")
		var ms []*memory
		for range writers {
			ms = append(ms, b.open(t))
		}
		for version := int64(0); version < versions; {
			var group sync.WaitGroup
			errs := make([]error, writers)
			for i, m := range ms {
				group.Go(func() {
					c := change{Lock: token}
					if before := version + int64(i/2); before > 0 {
						c.Prev = &state{Version: before}
					}
					errs[i] = m.Write(t.Context(), "a", c, nil)
				})
			}
			group.Wait()
			before := version
			for _, err := range errs {
				if err == nil {
					version++
				} else if !errors.Is(err, orchestrator.ErrConflict) {
					t.Error(err)
				}
			}
			if got, want := text(t, m, "a"), fmt.Sprint(" ", version); got != want ||
				version == before {
				t.Fatalf("the state was%d, is%s, and should be%s", before, got, want)
			}
		}
	})
}

// spec: A-15
func TestManyProcessesMayOpenANewDatabaseAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, begin func(testing.TB) base) {
		for range 5 {
			b := begin(t)
			var group sync.WaitGroup
			for range 6 {
				db := b.db(t)
				group.Go(func() {
					m, err := sqlmemory.Open[value](t.Context(), db, b.dialect)
					if err == nil {
						_, err = m.Read(t.Context(), "a", nil)
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
		}
	})
}

// spec: A-15
func TestAUserWithoutTheRightToMakeTablesMayOpenOneThatExists(t *testing.T) {
	for name, b := range map[string]base{"SQLite": newSQLite(t), "PostgreSQL": newPostgres(t)} {
		t.Run(name, func(t *testing.T) {
			at, err := url.Parse(b.at)
			if err != nil {
				t.Fatal(err)
			}
			at.RawQuery += map[sqlmemory.Dialect]string{
				sqlmemory.SQLite:     "&_pragma=query_only(1)",
				sqlmemory.PostgreSQL: "&default_transaction_read_only=on",
			}[b.dialect]
			reader := base{b.driver, at.String(), b.dialect}
			_, err = sqlmemory.Open[value](t.Context(), reader.db(t), b.dialect)
			if err == nil {
				t.Fatal("a reader makes the table")
			}
			b.open(t)
			if s, err := reader.open(t).Read(t.Context(), "a", nil); s != nil || err != nil {
				t.Errorf("%v, %v", s, err)
			}
		})
	}
}

// spec: A-15
func TestOpenRefusesAnotherTableAndMisuse(t *testing.T) {
	b := newSQLite(t)
	db := b.db(t)
	for _, open := range []func() (*memory, error){
		func() (*memory, error) { return sqlmemory.Open[value](t.Context(), nil, b.dialect) },
		func() (*memory, error) { return sqlmemory.Open[value](t.Context(), db, 0) },
		func() (*memory, error) {
			if _, err := db.Exec("create table perdure_instances (subject text)"); err != nil {
				t.Error(err)
			}
			return sqlmemory.Open[value](t.Context(), db, b.dialect)
		},
	} {
		m, err := open()
		if m != nil || err == nil || !strings.HasPrefix(err.Error(), "sqlmemory: ") {
			t.Errorf("%v, %v", m, err)
		}
	}
}

// spec: A-15
func TestErrorsNameTheCallAndTheSubject(t *testing.T) {
	b := newSQLite(t)
	db := b.db(t)
	m, err := sqlmemory.Open[any](t.Context(), db, b.dialect)
	if err != nil {
		t.Fatal(err)
	}
	write := func(next any) error {
		return m.Write(t.Context(), "it", orchestrator.Change[any]{Next: next, Lock: 1}, nil)
	}
	expect := func(err error, begin string) {
		t.Helper()
		if err == nil || !strings.HasPrefix(err.Error(), begin) {
			t.Errorf("the error is %v, and should begin with %s", err, begin)
		}
	}
	if err := write(1); !errors.Is(err, orchestrator.ErrFenced) {
		t.Error(err)
	}
	expect(write(1), "sqlmemory: write it: orchestrator: the lock is not held")
	expect(write(func() {}), "sqlmemory: write it: json: ")
	const damaged = `insert into perdure_instances values (cast('x' as blob), null, '{', 1, 0, 0)`
	if _, err := db.Exec(damaged); err != nil {
		t.Fatal(err)
	}
	_, err = m.Read(t.Context(), "x", nil)
	expect(err, "sqlmemory: read x: unexpected end of JSON")
	db.Close()
	expect(write(1), "sqlmemory: write it: sql: ")
	_, err = m.Read(t.Context(), "it", nil)
	expect(err, "sqlmemory: read it: sql: ")
	_, err = m.Lock(t.Context(), "it", time.Hour, nil)
	expect(err, "sqlmemory: lock it: sql: ")
	_, err = m.Unlock(t.Context(), "it", 1, nil)
	expect(err, "sqlmemory: unlock it: sql: ")
	_, err = m.Children(t.Context(), "it")
	expect(err, "sqlmemory: children of it: sql: ")
}

// A deaf connector makes connections on which all queries fail, once it is told to. It makes none
// at first.
type deaf struct {
	base
	driver driver.Driver
	told   atomic.Bool
	none   atomic.Int64 // so many times
}

func (d *deaf) Driver() driver.Driver { return d.driver }

func (d *deaf) Connect(context.Context) (driver.Conn, error) {
	if d.none.Add(-1) >= 0 {
		return nil, errDeaf
	}
	c, err := d.driver.Open(d.at)
	return deafConn{c.(fullConn), d}, err
}

type fullConn interface {
	driver.Conn
	driver.ExecerContext
	driver.QueryerContext
}

type deafConn struct {
	fullConn
	of *deaf
}

var errDeaf = errors.New("the query fails")

func (c deafConn) QueryContext(ctx context.Context, q string, args []driver.NamedValue) (
	driver.Rows, error) {
	if c.of.told.Load() {
		return nil, errDeaf
	}
	return c.fullConn.QueryContext(ctx, q, args)
}

// spec: A-15
func TestOpenWaitsForTheFirstProcessOnSQLite(t *testing.T) {
	for _, dialect := range []sqlmemory.Dialect{sqlmemory.SQLite, sqlmemory.PostgreSQL} {
		d := &deaf{base: newSQLite(t)}
		d.driver = d.db(t).Driver()
		d.none.Store(5)
		db := sql.OpenDB(d)
		defer db.Close()
		m, err := sqlmemory.Open[value](t.Context(), db, dialect)
		if waits := dialect == sqlmemory.SQLite; (m != nil) != waits || (err == nil) != waits {
			t.Errorf("%v, %v", m, err)
		}
	}
}

// spec: A-15
func TestAWriteThatDoesNotKnowWhyItIsRefusedDoesNotSay(t *testing.T) {
	d := &deaf{base: newSQLite(t)}
	d.driver = d.db(t).Driver()
	db := sql.OpenDB(d)
	defer db.Close()
	m, err := sqlmemory.Open[value](t.Context(), db, d.dialect)
	if err != nil {
		t.Fatal(err)
	}
	d.told.Store(true)
	err = m.Write(t.Context(), "a", change{Lock: 1}, nil)
	if !errors.Is(err, errDeaf) || errors.Is(err, orchestrator.ErrFenced) {
		t.Error(err)
	}
}

// spec: A-15
func TestACallOnABusyFileFailsWithoutAnEffect(t *testing.T) {
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			b := file(filepath.Join(t.TempDir(), "app.db"), "_pragma=journal_mode("+mode+")")
			m := b.open(t)
			token := lock(t, m, "a")
			other, err := b.db(t).Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			// In the mode delete, a reader is in the way of commits only.
			blocks := map[string]string{"wal": "begin immediate", "delete": "begin"}[mode]
			for _, s := range []string{blocks, "select * from perdure_instances"} {
				if _, err := other.ExecContext(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			got, e1 := m.Lock(t.Context(), "b", time.Hour, nil)
			e2 := m.Write(t.Context(), "a", change{Lock: token}, nil)
			ok, e3 := m.Unlock(t.Context(), "a", token, nil)
			for _, err := range []error{e1, e2, e3} {
				if err == nil || !strings.Contains(err.Error(), "SQLITE_BUSY") {
					t.Errorf("the error is %v", err)
				}
			}
			if got != 0 || ok {
				t.Errorf("the answers are %d, %v", got, ok)
			}
			if _, err := other.ExecContext(t.Context(), "rollback"); err != nil {
				t.Fatal(err)
			}
			if first := lock(t, m, "b"); first != 1 {
				t.Errorf("token %d is the first", first)
			}
			if err := m.Write(t.Context(), "a", change{Lock: token}, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// spec
func TestTheClockOfAProcessDoesNotMatter(t *testing.T) {
	b := newPostgres(t)
	m := b.open(t)
	held := lock(t, m, "a")
	var late orchestrator.Token
	synctest.Test(t, func(t *testing.T) { // the clock of a bubble is many years behind
		db := b.db(t)
		defer db.Close()
		other, err := sqlmemory.Open[value](t.Context(), db, b.dialect)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := other.Lock(t.Context(), "a", time.Hour, nil); got != 0 || err != nil {
			t.Errorf("a lock that is held is taken: %d, %v", got, err)
		}
		if err := other.Write(t.Context(), "a", change{Lock: held}, nil); err != nil {
			t.Error(err)
		}
		late = lock(t, other, "b")
		if _, err := other.Lock(t.Context(), "c", time.Microsecond, nil); err != nil {
			t.Error(err)
		}
	})
	if got, err := m.Lock(t.Context(), "b", time.Hour, nil); got != 0 || err != nil {
		t.Errorf("a lock that is held is taken: %d, %v", got, err)
	}
	if err := m.Write(t.Context(), "b", change{Lock: late}, nil); err != nil {
		t.Error(err)
	}
	if got := lock(t, m, "c"); got != 2 {
		t.Errorf("token %d is the second", got)
	}
}

// spec: A-15
func TestAnAnswerThatIsLostIsFoundOut(t *testing.T) {
	b := newPostgres(t)
	at, err := url.Parse(b.at)
	if err != nil {
		t.Fatal(err)
	}
	network := faultproxy.New(t, at.Host)
	at.Host = network.Addr()
	far := base{b.driver, at.String(), b.dialect}.open(t)
	near := b.open(t)
	token := lock(t, far, "a")
	write := func(next string, before int64) error {
		c := change{Next: value{Text: next}, Lock: token}
		if before > 0 {
			c.Prev = &state{Version: before}
		}
		return far.Write(t.Context(), "a", c, nil)
	}
	unknown := func(err error) {
		t.Helper()
		if err == nil || errors.Is(err, orchestrator.ErrConflict) ||
			errors.Is(err, orchestrator.ErrFenced) || network.Hits() == 0 {
			t.Errorf("the error is %v, after %d faults", err, network.Hits())
		}
	}
	if err := write("one", 0); err != nil { // the next is one round trip
		t.Fatal(err)
	}
	network.CutAfter(faultproxy.ToClient, 0)
	unknown(write("two", 1))
	if got := text(t, near, "a"); got != "two 2" {
		t.Errorf("after the answer is lost, the state is %s", got)
	}
	network.Heal()
	if err := write("two", 1); !errors.Is(err, orchestrator.ErrConflict) {
		t.Errorf("the write that is repeated: %v", err)
	}
	network.CutAfter(faultproxy.ToServer, 0)
	unknown(write("three", 2))
	if got := text(t, near, "a"); got != "two 2" {
		t.Errorf("after the call is lost, the state is %s", got)
	}
	network.Heal()
	if err := write("three", 2); err != nil {
		t.Error(err)
	}
	lock(t, far, "b")
	network.CutAfter(faultproxy.ToClient, 0)
	_, err = far.Lock(t.Context(), "c", time.Hour, nil)
	unknown(err)
	if got, err := near.Lock(t.Context(), "c", time.Hour, nil); got != 0 || err != nil {
		t.Errorf("a lock of which nobody knows is taken: %d, %v", got, err)
	}
}

// spec
func TestNoEventIsLostOrDoubledInADatabaseWhereverAProcessDies(t *testing.T) {
	onBoth(t, func(t *testing.T, begin func(testing.TB) base) {
		b := begin(t)
		m, err := sqlmemory.Open[orchestrator.Record](t.Context(), b.db(t), b.dialect)
		if err != nil {
			t.Fatal(err)
		}
		memorytest.RunOrder(t, func() orchestrator.Memory[orchestrator.Record] { return m })
	})
}
