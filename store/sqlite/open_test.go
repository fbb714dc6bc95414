package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database at all\n", 1000)),
		0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path    string
		options Options
		is      error  // nil for any error
		says    string // a text that the error must contain
	}{
		"a directory": {dir, Options{}, nil, "directory"},
		"a missing directory": {
			filepath.Join(dir, "no", "runs.db"),
			Options{},
			nil,
			"create it first",
		},
		"a file as directory": {
			filepath.Join(text, "runs.db"),
			Options{},
			nil,
			"not a directory",
		},
		"a text": {text, Options{}, store.ErrForeign, "no SQLite database"},
		"another's, to read": {
			script(t, "create table meta (x)"),
			Options{ReadOnly: true},
			store.ErrOlder,
			"it is version 0",
		},
		"another's, to use": {
			script(t, "create table meta (x)"),
			Options{Existing: true},
			store.ErrOlder,
			"it is version 0",
		},
		"another's perdure_meta": {
			script(t, "create table perdure_meta (x)"),
			Options{},
			store.ErrForeign,
			"perdure_meta is somebody else's",
		},
		"a strange perdure_meta": {
			script(t, "create table perdure_meta (key, value)"),
			Options{},
			store.ErrForeign,
			"perdure_meta is somebody else's",
		},
		"a newer schema": {
			newer(t),
			Options{},
			store.ErrNewer,
			fmt.Sprintf("version %d and this program knows %d", schemaVersion+1, schemaVersion),
		},
		"a newer one, to read": {
			newer(t),
			Options{ReadOnly: true},
			store.ErrNewer,
			fmt.Sprint("version ", schemaVersion+1),
		},
		"a missing file, to read": {
			filepath.Join(dir, "none.db"),
			Options{ReadOnly: true},
			nil,
			"no such file",
		},
		"a missing file, to use": {
			filepath.Join(dir, "none.db"),
			Options{Existing: true},
			fs.ErrNotExist,
			"no such file",
		},
		"an empty file, to use": {
			script(t, "vacuum"),
			Options{Existing: true},
			store.ErrOlder,
			"it is version 0",
		},
		"a text, to use": {
			text,
			Options{Existing: true},
			store.ErrForeign,
			"no SQLite database",
		},
		"a newer schema, to use": {
			newer(t),
			Options{Existing: true},
			store.ErrNewer,
			fmt.Sprint("version ", schemaVersion+1),
		},
		"an empty file, to read": {
			script(t, "vacuum"),
			Options{ReadOnly: true},
			store.ErrOlder,
			"it is version 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, _ := os.ReadFile(c.path)
			s, err := OpenWith(c.path, c.options)
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			if c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) ||
				!strings.Contains(err.Error(), c.path) {
				t.Errorf("the error is %v, want %v, %q and the path", err, c.is, c.says)
			}
			if after, _ := os.ReadFile(c.path); string(after) != string(before) {
				t.Errorf("the file was changed")
			}
		})
	}
}

func TestOpenReadOnlyDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(dir, "runs.db")); err == nil ||
		!strings.Contains(err.Error(), "permissions") {
		t.Errorf("Open = %v", err)
	}
}

// script makes a database with SQL.
func script(t *testing.T, sql string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "some.db")
	c, err := dial(path, "rwc")
	if err == nil {
		err = errors.Join(c.script(sql), c.close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// newer makes a database as a newer version would leave it.
func newer(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "newer.db")
	mustOpen(t, path).Close()
	c, err := dial(path, "rw")
	if err == nil {
		err = errors.Join(
			c.script("update perdure_meta set value = value + 1 where key = 'schema'"), c.close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%20?#.db")
	w := mustOpen(t, path)
	r, err := OpenWith(path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := w.Commit(t.Context(), start(w, 0, 1)); err != nil {
		t.Fatal(err)
	}
	if heads, _, err := r.Find(t.Context(), store.Filter{}); err != nil || len(heads) != 1 {
		t.Errorf("Find = %v, %v", heads, err)
	}
	if err := r.Commit(t.Context(), start(r, 0, 2)); err == nil {
		t.Errorf("it commits")
	}
	if _, err := join(r); err == nil {
		t.Errorf("it joins")
	}
}

func TestManyOpenAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	const openers = 8
	names := make(chan string, openers)
	for range openers {
		go func() {
			s, err := Open(path)
			if err != nil {
				names <- err.Error()
				return
			}
			names <- s.database
			s.Close()
		}()
	}
	first := <-names
	for range openers - 1 {
		if name := <-names; name != first || len(name) != 8 {
			t.Errorf("one has %q, another %q", first, name)
		}
	}
}

// Two processes that open one new file at the same time wait for each other, also while one of them
// looks for the schema.
func TestWhoMigratesWaits(t *testing.T) {
	s := &Store{path: filepath.Join(t.TempDir(), "runs.db")}
	var waits driver.Value
	c, err := s.dialWriter(func(c *conn) (err error) {
		waits, err = c.value("pragma busy_timeout")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if waits != busyFor.Milliseconds() {
		t.Errorf("a migration waits for %v ms", waits)
	}
	if waits, err = c.value("pragma busy_timeout"); waits != int64(0) {
		t.Errorf("SQLite waits for %v ms where begin is to try again (%v)", waits, err)
	}
	if err := migrate(c); err != nil {
		t.Fatal(err)
	}
	if waits, err = c.value("pragma busy_timeout"); waits != busyFor.Milliseconds() {
		t.Errorf("a migration that is called later waits for %v ms (%v)", waits, err)
	}
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"3.53.4": true, "3.53.3": false, "3.53.10": true, "3.54.0": true, "4.0.0": true,
		"3.9.99": false, "3.53": false, "": false,
	} {
		if atLeast(version, minimum) != want {
			t.Errorf("atLeast(%q) = %v", version, !want)
		}
	}
}

// TestViews verifies what a person sees with sqlite3.
func TestViews(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := mustOpen(t, path)
	got, err := join(s)
	if err != nil {
		t.Fatal(err)
	}
	g := start(s, got.Engine, 5)
	c := &g.Changes[0]
	c.Head.WorkflowID, c.Head.Chain, c.Head.Parent = "order-4711", c.Run-1, c.Run-2
	c.Entries[0].Detail = &journal.Detail{
		StartDetail: journal.StartDetail{Attributes: map[string]string{"city": "Köln"}},
	}
	c.Entries = append(c.Entries, step(1, c.Run, 2, []byte("\xff\x00")).Changes[0].Entries[0])
	c.Entries = append(c.Entries, journal.Entry{Run: c.Run, Seq: 3, Kind: journal.RunFailed,
		Status: journal.Failed, Op: journal.Op{Scope: 2, Key: "k"}, At: noon.Add(1), Spill: 99,
		Detail: &journal.Detail{Failure: &journal.Failure{Message: "no money"}}})
	c.Posts = []store.Post{
		{Run: c.Run, Message: signal("paid", "m-1", []byte("12 €"))},
		{Run: c.Run, Message: signal("raw", "", []byte("\xff"))},
		{WorkflowID: "order-4712", Until: noon.Add(2), Message: signal("paid", "m-2", nil)},
	}
	taken := step(got.Engine, c.Run, 4, []byte("12 €"))
	taken.Changes[0].Entries[0].Detail = &journal.Detail{
		MessageDetail: journal.MessageDetail{Mail: 1},
	}
	if err := errors.Join(s.Spill(t.Context(), got.Engine, 99, []byte("große Zahl")),
		s.Commit(t.Context(), g), s.Commit(t.Context(), taken)); err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(
		`perdure_runs: DB-1-5|order-4711|w|WORKFLOW|RUNNING|1|2026-05-06T12:00:00.000000000Z|2026-05-06T12:00:00.000000000Z|<nil>||0|2|1|{"city":"Köln"}|DB-1-4|DB-1-3|137438953477|<nil>
perdure_journal: DB-1-5|order-4711|1|RunStarted|RUNNING|<nil>|<nil>|<nil>|<nil>|2026-05-06T12:00:00.000000000Z|<nil>|{"order":1}|{"attributes":{"city":"Köln"}}|137438953477
perdure_journal: DB-1-5|order-4711|2|StepCompleted|<nil>|<nil>|charge|<nil>|1|2026-05-06T12:00:00.000000000Z|1.5|x'FF00'|<nil>|137438953477
perdure_journal: DB-1-5|order-4711|3|RunFailed|FAILED|2|<nil>|k|<nil>|2026-05-06T12:00:00.000000001Z|<nil>|große Zahl|{"failure":{"message":"no money"}}|137438953477
perdure_journal: DB-1-5|order-4711|4|StepCompleted|<nil>|<nil>|charge|<nil>|3|2026-05-06T12:00:00.000000000Z|1.5|12 €|{"mail":1}|137438953477
perdure_inbox: DB-1-5|order-4711|1|SignalReceived|paid|<nil>|m-1|2026-05-06T12:00:00.000000000Z|4|<nil>|<nil>|<nil>|137438953477
perdure_inbox: DB-1-5|order-4711|2|SignalReceived|raw|<nil>|<nil>|2026-05-06T12:00:00.000000000Z|<nil>|<nil>|x'FF'|<nil>|137438953477
perdure_inbox: <nil>|order-4712|1|SignalReceived|paid|<nil>|m-2|2026-05-06T12:00:00.000000000Z|<nil>|2026-05-06T12:00:00.000000002Z|<nil>|<nil>|<nil>
`, "DB", s.database)
	if shown := rows(t, path, "perdure_runs") + rows(t, path, "perdure_journal") +
		rows(t, path, "perdure_inbox"); shown != want {
		t.Errorf("the views show\n%s\nwant\n%s", shown, want)
	}
}

// signal returns a message.
func signal(name, id string, data []byte) journal.Entry {
	e := journal.Entry{
		Kind: journal.SignalReceived,
		Op:   journal.Op{Name: name},
		At:   noon,
		Data: data,
	}
	if id != "" {
		e.Detail = &journal.Detail{MessageDetail: journal.MessageDetail{Message: id}}
	}
	return e
}

// rows returns the rows of a view, a line for each.
func rows(t *testing.T, path, view string) string {
	t.Helper()
	c, err := dial(path, "ro")
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	var b strings.Builder
	err = c.query(func(row []driver.Value) error {
		b.WriteString(view + ": ")
		for i, v := range row {
			if i > 0 {
				b.WriteByte('|')
			}
			fmt.Fprint(&b, v)
		}
		b.WriteByte('\n')
		return nil
	}, "select * from "+view)
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
