package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/storetest"
)

// migration returns the statements of a migration. For version 0 it returns those of a new
// database.
func migration(t *testing.T, version int) string {
	t.Helper()
	file := "migrations/new.sql"
	if version > 0 {
		file = fmt.Sprintf("migrations/%04d.sql", version)
	}
	sql, err := migrations.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(sql)
}

// firstVersion makes a database as the first version of the store would leave it: an engine has
// died with one run, another run sleeps and a third has ended.
func firstVersion(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "first.db")
	c, err := (&Store{path: path}).dialWriter()
	if err != nil {
		t.Fatal(err)
	}
	first := journal.Number(1)<<37 | 1
	err = errors.Join(c.script("begin"), c.script(migration(t, 1)), c.script(fmt.Sprintf(`
insert into meta values ('database', 'abcdefgh'), ('schema', 1);
insert into kinds values (1, 'RunStarted'), (31, 'StepCompleted');
insert into engines values (1, 'host', 42, 'b1', 5);
insert into heads values
    (%[1]d, 'order-1', 'w', 0, 2, 1, 7, 3, null, 0, '', 1, 1),
    (%[1]d + 1, 'order-2', 'w', 0, 3, 0, 9, 3, null, 0, 'a timer', 0, 0),
    (%[1]d + 2, 'order-3', 'w', 0, 20, 0, null, 3, 8, 1, '', 0, 0);
insert into entries values
    (%[1]d, 1, 1, 2, null, null, null, null, 3, null, null, '{"build":"b1"}', cast('{"in":1}' as blob)),
    (%[1]d, 2, 31, null, null, 'charge', null, 1, 4, 5, 99, null, null),
    (%[1]d + 1, 1, 1, 2, null, null, null, null, 3, null, null, null, cast('{"in":2}' as blob)),
    (%[1]d + 2, 1, 1, 20, null, null, null, null, 3, null, null, null, null);
insert into spilled values (99, cast('kept' as blob)), (98, x'00');
commit`, first)), c.close())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFirstVersionIsMigrated(t *testing.T) {
	s := mustOpen(t, firstVersion(t))
	info, err := s.Info(t.Context())
	if err != nil || info.Schema != schemaVersion || info.Database != "abcdefgh" ||
		info.Runs != 3 || len(info.Engines) != 1 {
		t.Fatalf("Info gives %+v, %v", info, err)
	}
	heads, _, err := s.Find(t.Context(), store.Filter{})
	if err != nil || len(heads) != 3 {
		t.Fatalf("Find gives %v, %v", heads, err)
	}
	for _, h := range heads {
		if h.Chain != h.Number || h.Mail != 0 || h.Parent != 0 || h.Keep != 0 ||
			h.Created.UnixNano() != 3 {
			t.Errorf("a head is %+v", h)
		}
	}
	over, asleep, dead := heads[0], heads[1], heads[2]
	if over.Status != journal.Completed || asleep.Cause != "a timer" || dead.Owner != 1 ||
		dead.Crashes != 1 {
		t.Errorf("the heads are %+v", heads)
	}
	entries, err := s.Load(t.Context(), dead.Number, store.Range{Payloads: true})
	if err != nil || len(entries) != 2 || string(entries[0].Data) != `{"in":1}` ||
		entries[0].Detail.Build != "b1" || string(entries[1].Data) != "kept" {
		t.Errorf("the journal is %+v, %v", entries, err)
	}

	// Old rows work together with new ones.
	got, err := join(s)
	if err != nil || got.Engine != 2 {
		t.Fatalf("join gives %+v, %v", got, err)
	}
	g := &store.Group{Now: noon, Changes: []store.Change{{Posts: []store.Post{
		{WorkflowID: "order-1", Message: signal("paid", "m", nil)},
		{Run: dead.Number, Message: signal("paid", "m", nil)},
		{Run: over.Number, Message: signal("paid", "m", nil)},
		{WorkflowID: "order-2", Message: signal("paid", "m", nil)},
	}}}}
	if err := s.Commit(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	for i, want := range []store.Verdict{
		store.Delivered, store.Duplicate, store.Closed, store.Delivered,
	} {
		if p := g.Changes[0].Posts[i]; p.Verdict != want {
			t.Errorf("the verdict on post %d is %d, want %d", i, p.Verdict, want)
		}
	}
	claimed, err := s.Claim(t.Context(), store.TakeDue{
		Engine:    got.Engine,
		Workflows: []string{"w"},
		Max:       5,
		Now:       noon,
	})
	if err != nil || len(claimed.Runs) != 2 || claimed.Runs[0].Head.Number != asleep.Number ||
		claimed.Runs[1].Head.Crashes != 1 ||
		len(claimed.Runs[0].Inbox) != 1 || len(claimed.Runs[1].Inbox) != 1 {
		t.Errorf("Claim gives %+v, %v", claimed, err)
	}
	// Runs that ended before there was a retention are kept until somebody sets one.
	for _, c := range []struct {
		unsaid map[string]journal.Retention
		runs   int
	}{
		{nil, 0},
		{map[string]journal.Retention{"v": "0s"}, 0},
		{map[string]journal.Retention{"w": "0s"}, 0},
		{nil, 1},
	} {
		purged, err := s.Purge(t.Context(), store.Purge{
			Engine: got.Engine, Now: noon, Unsaid: c.unsaid,
		})
		if err != nil || purged.Runs != c.runs {
			t.Errorf("Purge with %v gives %+v, %v", c.unsaid, purged, err)
		}
	}
	if swept, err := s.writer.value("select count(*) from perdure_spilled"); err != nil ||
		swept != int64(1) {
		t.Errorf("%v payloads are left, %v", swept, err)
	}
}

// TestMigrationIsOneTransaction kills each migration after each of its statements. The database
// must then open as if the migration had not begun.
func TestMigrationIsOneTransaction(t *testing.T) {
	for version := range schemaVersion + 1 {
		statements := strings.SplitAfter(migration(t, version), ";\n")
		for n := range statements {
			path := filepath.Join(t.TempDir(), "runs.db")
			if version > 1 {
				path = firstVersion(t)
			}
			c, err := (&Store{path: path}).dialWriter()
			if err != nil {
				t.Fatal(err)
			}
			for v := 2; v < version; v++ {
				meta := "meta"
				if v >= firstPrefixed {
					meta = "perdure_meta"
				}
				if err := errors.Join(c.script(migration(t, v)),
					c.script(fmt.Sprint("update ", meta, " set value = ", v,
						" where key = 'schema'"))); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(begin(c), c.script(strings.Join(statements[:n], "")),
				c.close()); err != nil {
				t.Fatalf("version %d, after %d statements: %v", version, n, err)
			}
			s := mustOpen(t, path)
			if _, err := join(s); err != nil {
				t.Fatalf("version %d, after %d statements: %v", version, n, err)
			}
			s.Close()
		}
	}
}

// shape returns the tables, columns and indexes of a database, by name. Indexes of older versions
// have names without the prefix.
func shape(t *testing.T, c *conn) string {
	t.Helper()
	var lines []string
	add := func(row []driver.Value) error {
		lines = append(lines, strings.ReplaceAll(fmt.Sprint(row), "perdure_", ""))
		return nil
	}
	err := errors.Join(
		c.query(
			add, `select 'column', t.name, ' ', x.name, ' ', x.type, x."notnull", x.dflt_value, x.pk
from sqlite_schema t join pragma_table_xinfo(t.name) x where t.type in ('table', 'view') and t.name not like 'sqlite_%'`),
		c.query(
			add,
			`select 'index', t.name, ' ', i.name, ' ', i."unique", i.partial, ' ', (select group_concat(x.name) from pragma_index_info(i.name) x),
    ' ', (select iif(instr(s.sql, 'where') > 0, substr(s.sql, instr(s.sql, 'where')), '') from sqlite_schema s where s.name = i.name)
from sqlite_schema t join pragma_index_list(t.name) i where t.type = 'table'`),
		c.query(
			add,
			`select 'reference', t.name, ' ', f."table", f."from", f."to" from sqlite_schema t join pragma_foreign_key_list(t.name) f where t.type = 'table'`))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// A migrated database has the same tables, columns and indexes as a new one.
//
// spec: P-2
func TestMigratedIsLikeNew(t *testing.T) {
	old, fresh := mustOpen(t, firstVersion(t)), mustOpen(t, filepath.Join(t.TempDir(), "new.db"))
	if got, want := shape(t, old.writer), shape(t, fresh.writer); got != want {
		t.Errorf("migrated:\n%s\nnew:\n%s", got, want)
	}
	if text := shape(t, fresh.writer); len(strings.Split(text, "\n")) < 100 {
		t.Errorf("this proves little: %s", text)
	}
}

// An application's file takes the store's tables beside its own and keeps its own.
//
// spec: P-2, B-4
func TestApplicationsFileIsTaken(t *testing.T) {
	theirs := "create table meta (key, value); create table runs (x); create table messages (y); " +
		"create index heads_open on runs (x); " +
		"create view inbox as select 1; " +
		"insert into meta values ('schema', 99), ('database', 'theirs'); " +
		"insert into runs values (7)"
	for name, sql := range map[string]string{
		"tables": theirs, "an ID": "pragma application_id = 7; pragma user_version = 12; " + theirs,
		"an ID alone":     "pragma application_id = 7; pragma user_version = 12",
		"in another mode": "pragma journal_mode = truncate; pragma page_size = 1024; " + theirs,
	} {
		path := script(t, sql)
		kept := func() string {
			c, err := dial(path, "ro")
			if err != nil {
				t.Fatal(err)
			}
			defer c.close()
			var all []string
			add := func(row []driver.Value) error {
				all = append(all, fmt.Sprint(row))
				return nil
			}
			err = errors.Join(
				c.query(add, "select * from pragma_application_id, pragma_user_version"),
				c.query(add, "select name, sql from sqlite_schema where name not like "+
					"'%perdure%' and name <> 'sqlite_sequence' order by name"))
			if strings.Contains(sql, "runs") {
				err = errors.Join(err, c.query(add, "select * from runs"),
					c.query(add, "select * from meta"))
			}
			if err != nil {
				t.Fatal(err)
			}
			return strings.Join(all, "\n")
		}
		before := kept()
		for range 2 {
			s := mustOpen(t, path)
			got, err := join(s)
			if err == nil {
				err = s.Commit(t.Context(), start(s, got.Engine, int64(got.Engine)))
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			s.Close()
		}
		if after := kept(); after != before {
			t.Errorf("%s: the application had\n%s\nand has\n%s", name, before, after)
		}
		if rows(t, path, "perdure_journal") == "" {
			t.Errorf("%s: no journal is shown", name)
		}
	}
}

// A database from before, whose successors have copies of their predecessors' messages, still works
// after the migration.
//
// spec: P-2, R-25
func TestCopiedInboxesAreMigrated(t *testing.T) {
	path := firstVersion(t)
	c, err := (&Store{path: path}).dialWriter()
	if err != nil {
		t.Fatal(err)
	}
	for v := 2; v <= 4; v++ {
		err = errors.Join(err, c.script(migration(t, v)))
	}
	err = errors.Join(err, c.script(`update perdure_meta set value = 4 where key = 'schema';
delete from perdure_entries; delete from perdure_heads;
create view perdure_runs as select h.number, (select count(*) from perdure_messages w where w.run = h.number and w.taken is null) as waiting from perdure_heads h;
create view perdure_inbox as select i.run as run, i.message from (select r.run, r.number as message from perdure_messages r union all select null, u.number from perdure_unrouted u) i;
create view perdure_journal as select 1;
create view broken as select missing from theirs;
create view runs as select * from perdure_runs;
create view inbox as select * from perdure_inbox;`),
		c.script(storetest.CopiedInboxes("perdure_", "0", func(s string) string {
			return fmt.Sprintf("x'%x'", s)
		})), c.close())
	if err != nil {
		t.Fatal(err)
	}
	storetest.Migrated(t, storetest.Database{
		Open: func() (store.Store, error) { return Open(path) },
	})
	s := mustOpen(t, path)
	for _, table := range []string{"perdure_messages", "perdure_gone"} {
		if n, err := s.writer.value("select count(*) from " + table); err != nil || n != int64(0) {
			t.Errorf("%s has %v rows, %v", table, n, err)
		}
	}
}

// objects returns the types and names of everything in a database, in order of the names.
func objects(t *testing.T, path string) []string {
	t.Helper()
	lines := strings.Split(rows(t, path, "(select type || ' ' || name as what from sqlite_schema "+
		"where name not like 'sqlite_%' order by name)"), "\n")
	for i := range lines {
		_, lines[i], _ = strings.Cut(lines[i], ": ")
	}
	return lines[:len(lines)-1]
}

// An application can have tables with the names of the views of earlier versions, made before the
// store's or after. The store makes nothing without its prefix.
//
// spec: P-2, B-4
func TestApplicationHasTheNamesOfTheViews(t *testing.T) {
	const theirs = "create table runs (x); create table journal (x); create table inbox (x); " +
		"insert into runs values (1); insert into journal values (2); insert into inbox values (3)"
	use := func(path string) {
		s := mustOpen(t, path)
		got, err := join(s)
		if err == nil {
			err = s.Commit(t.Context(), start(s, got.Engine, int64(got.Engine)))
		}
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	fresh := filepath.Join(t.TempDir(), "runs.db")
	use(fresh)
	for _, o := range objects(t, fresh) {
		if !strings.Contains(o, " perdure_") {
			t.Errorf("the store makes the %s in a new file", o)
		}
	}
	c, err := dial(fresh, "rw")
	if err == nil {
		err = errors.Join(c.script(theirs), c.close())
	}
	if err != nil {
		t.Fatal(err)
	}
	for when, path := range map[string]string{"after": fresh, "before": script(t, theirs)} {
		use(path)
		got := rows(t, path, "runs") + rows(t, path, "journal") + rows(t, path, "inbox")
		if got != "runs: 1\njournal: 2\ninbox: 3\n" {
			t.Errorf("tables of the application that were made %s: %s", when, got)
		}
		if rows(t, path, "perdure_journal") == "" || rows(t, path, "perdure_runs") == "" {
			t.Errorf("tables of the application that were made %s: no journal is shown", when)
		}
	}
}

// The views without the prefix that versions 4 and 5 made are dropped. Tables and views of the
// application with the same names stay.
//
// spec: P-2
func TestShortViewsAreDropped(t *testing.T) {
	short := func(name string) string {
		return "create view " + name + " as select * from perdure_" + name + ";"
	}
	all := short("runs") + short("journal") + short("inbox")
	for _, c := range []struct {
		version int
		sql     string
		left    string
	}{
		{4, all, ""},
		{5, all, ""},
		{5, short("runs") + short("inbox") + "create table journal (x)", "table journal"},
		{5, short("runs") + "create table journal (x);" +
			"create view inbox as select * from perdure_inbox where taken is null",
			"view inbox, table journal"},
		{5, "create view journal as select 1", "view journal"},
		{5, all + "create trigger bin instead of delete on runs begin select 1; end", ""},
		{6, all, "view inbox, view journal, view runs"},
	} {
		path := firstVersion(t)
		w, err := (&Store{path: path}).dialWriter()
		if err != nil {
			t.Fatal(err)
		}
		for v := 2; v <= c.version; v++ {
			err = errors.Join(err, w.script(migration(t, v)))
		}
		err = errors.Join(err, w.script(fmt.Sprint(
			"update perdure_meta set value = ", c.version, " where key = 'schema';", c.sql)),
			begin(w), dropShortViews(w), w.close()) // a migration that is killed
		if err != nil {
			t.Fatal(err)
		}
		mustOpen(t, path).Close()
		left := slices.DeleteFunc(objects(t, path), func(o string) bool {
			return strings.Contains(o, " perdure_") || strings.HasPrefix(o, "index ")
		})
		if got := strings.Join(left, ", "); got != c.left {
			t.Errorf("version %d with %s: %q is left, want %q", c.version, c.sql, got, c.left)
		}
	}
}

// spec: P-1, P-2
func TestOldRunsAreListed(t *testing.T) {
	path := firstVersion(t)
	c, err := (&Store{path: path}).dialWriter()
	if err != nil {
		t.Fatal(err)
	}
	for v := 2; v <= 6; v++ {
		err = errors.Join(err, c.script(migration(t, v)))
	}
	err = errors.Join(err, c.script("update perdure_meta set value = 6 where key = 'schema';\n"+
		"delete from perdure_entries; delete from perdure_heads;"),
		c.script(storetest.OldLists("perdure_", "0")), c.close())
	if err != nil {
		t.Fatal(err)
	}
	storetest.Listed(t, storetest.Database{
		Open: func() (store.Store, error) { return Open(path) },
	})
}
