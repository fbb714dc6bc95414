package codec_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/codec"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
)

func open[S store.Store](t *testing.T) func(s S, err error) S {
	return func(s S, err error) S {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
}

// A bare store has no abilities.
type bare struct{ store.Store }

// wrap returns the store with a codec that encrypts.
func wrap(t testing.TB, s store.Store, ids ...string) store.Store {
	t.Helper()
	w, err := codec.Wrap(context.Background(), s, sealing(t, ids...))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// has returns which abilities are there.
func has(a store.Abilities) map[string]bool {
	out := map[string]bool{}
	v := reflect.ValueOf(a)
	for i := range v.NumField() {
		out[v.Type().Field(i).Name] = !v.Field(i).IsNil()
	}
	return out
}

// spec: B-19
func TestAStoreKeepsItsAbilities(t *testing.T) {
	for name, below := range map[string]func(t *testing.T) store.Store{
		"bare":   func(*testing.T) store.Store { return bare{memory.New()} },
		"memory": func(*testing.T) store.Store { return memory.New() },
		"sqlite": func(t *testing.T) store.Store {
			return open[*sqlite.Store](t)(sqlite.Open(filepath.Join(t.TempDir(), "runs.db")))
		},
		"postgres": func(t *testing.T) store.Store {
			return open[*postgres.Store](t)(postgres.Open(t.Context(), testpg.URL(t)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := below(t)
			w := wrap(t, s, "k")
			want, got := has(store.AbilitiesOf(s)), has(store.AbilitiesOf(w))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("it has %v, and with the codec %v", want, got)
			}
			if name != "bare" && !got["Watcher"] || name == "bare" && got["Watcher"] {
				t.Errorf("it has %v", got)
			}
			twice := wrap(t, w, "outer")
			if got := has(store.AbilitiesOf(twice)); !reflect.DeepEqual(got, want) {
				t.Errorf("with two codecs it has %v", got)
			}
		})
	}
}

// newRun returns the change that creates the first run of an engine, with a message for itself.
func newRun(t *testing.T, s store.Store, engine journal.EngineID) store.Change {
	t.Helper()
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run, err := journal.MakeNumber(engine, 1)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1, 0).UTC()
	return store.Change{
		Run: run, Create: true, Head: &journal.Head{
			Number: run, ID: journal.MakeRunID(info.Database, run), WorkflowID: "w", Workflow: "w",
			Status: journal.Running, Created: now, Chain: run, Retain: "0s", Owner: engine,
			Cause: "it waits for Ada",
		},
		Entries: []journal.Entry{
			{
				Run: run, Seq: 1, Kind: journal.RunStarted, Status: journal.Running, At: now,
				Data: []byte(`"Ada"`), Detail: &journal.Detail{StartDetail: journal.StartDetail{
					Headers:    map[string]string{"for": "Ada"},
					Attributes: map[string]string{"plan": "pro"},
				}},
			},
			{
				Run: run, Seq: 2, Kind: journal.StepFailed, Op: journal.Op{Name: "a", Occ: 1},
				At: now, Detail: &journal.Detail{Failure: &journal.Failure{Message: "no Ada"}},
			},
			{
				Run: run, Seq: 3, Kind: journal.StepCompleted, Op: journal.Op{Name: "b", Occ: 1},
				At: now, Spill: run + 1, Data: []byte(`"Ada, at length"`),
			},
			{
				Run: run, Seq: 4, Kind: journal.AttributeSet, Op: journal.Op{Name: "plan", Occ: 1},
				At: now, Data: []byte("max"),
			},
		},
		Posts: []store.Post{{Run: run, Message: journal.Entry{
			Kind: journal.SignalReceived, Op: journal.Op{Name: "s"}, At: now, Data: []byte(`"Ada"`),
			Detail: &journal.Detail{MessageDetail: journal.MessageDetail{Message: "m"}},
		}}},
		Settings: []store.Setting{{Kind: "k", Name: "n", Value: []byte("Ada"), At: now}},
	}
}

func join(t *testing.T, s store.Store) journal.EngineID {
	t.Helper()
	got, err := s.Claim(t.Context(), store.Join{
		Self: store.Engine{Host: "h", PID: 1}, Now: time.Unix(1, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	return got.Engine
}

// clone returns a copy of a group that shares nothing with it.
func clone(t *testing.T, g *store.Group) (c store.Group) {
	t.Helper()
	var bytes bytes.Buffer
	err := errors.Join(gob.NewEncoder(&bytes).Encode(g), gob.NewDecoder(&bytes).Decode(&c))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A group that was sent is unchanged but for the verdicts, and can be sent again: the store knows
// it, although its bytes are others.
//
// spec: B-19
func TestAGroupThatIsSentStaysAsItIs(t *testing.T) {
	for name, below := range map[string]store.Store{
		"memory": memory.New(),
		"sqlite": open[*sqlite.Store](t)(sqlite.Open(filepath.Join(t.TempDir(), "runs.db"))),
	} {
		s := wrap(t, below, "k")
		engine := join(t, s)
		g := &store.Group{
			Engine: engine, Now: time.Unix(1, 0).UTC(),
			Changes: []store.Change{newRun(t, s, engine)},
		}
		before := clone(t, g)
		for range 2 {
			if err := s.Commit(t.Context(), g); err != nil {
				t.Fatal(err)
			}
			c := &g.Changes[0]
			p := &c.Posts[0]
			if c.Found.Cause != "it waits for Ada" || p.To.Cause != "it waits for Ada" ||
				p.Verdict != store.Delivered || p.Number != 1 {
				t.Errorf("%s: the verdicts are %+v", name, c)
			}
			c.Found, p.To, p.Verdict, p.Number = journal.Head{}, journal.Head{}, 0, 0
			g.Again, g.Grants = false, 0
			if now := clone(t, g); !reflect.DeepEqual(now, before) {
				t.Errorf("%s: it was %+v, and is %+v", name, before, now)
			}
			g.Again = true
		}
		entries, err := s.Load(t.Context(), g.Changes[0].Run, store.Range{Payloads: true})
		if err != nil || !reflect.DeepEqual(entries, g.Changes[0].Entries) {
			t.Errorf("%s: the journal is %+v, %v", name, entries, err)
		}
		raw, err := below.Load(t.Context(), g.Changes[0].Run, store.Range{Payloads: true})
		if text := string(mustJSON(t, raw)); err != nil || len(raw) != 4 ||
			strings.Contains(text, "Ada") || raw[0].Detail.Attributes["plan"] != "pro" ||
			string(raw[3].Data) != "max" {
			t.Errorf("%s: below, the journal is %s, %v", name, text, err)
		}
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// file is a database of SQLite, with a codec, and the same without this module.
type file struct {
	store.Store
	below  store.Store
	db     *sql.DB
	engine journal.EngineID
}

func newFile(t *testing.T) *file {
	path := filepath.Join(t.TempDir(), "runs.db")
	f := &file{below: open[*sqlite.Store](t)(sqlite.Open(path))}
	f.Store = wrap(t, f.below, "k")
	f.engine = join(t, f)
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	f.db = db
	return f
}

// commit writes a change of the engine.
func (f *file) commit(t *testing.T, c store.Change) {
	t.Helper()
	g := &store.Group{Engine: f.engine, Now: time.Unix(1, 0), Changes: []store.Change{c}}
	if err := f.Commit(t.Context(), g); err != nil {
		t.Fatal(err)
	}
}

// A payload at another place is not readable, nor is an entry with the payload of another one. The
// error names the run and the entry, and the entries before are there.
//
// spec: B-19
func TestAMovedPayloadIsNotReadable(t *testing.T) {
	for what, c := range map[string]struct {
		sql string
		bad int64
	}{
		"nothing":               {sql: "delete from perdure_meta where false"},
		"from another entry":    {"data = (select data from perdure_entries where seq = 1)", 5},
		"a detail":              {"detail = (select detail from perdure_entries where seq = 1)", 2},
		"a number of a payload": {"spill = (select max(id) from perdure_spilled)", 3},
	} {
		f := newFile(t)
		run := newRun(t, f, f.engine)
		for i := range 2 {
			e := run.Entries[2]
			e.Seq, e.Spill = int64(5+i), 0
			if i == 1 {
				e.Spill = run.Run + 2
			}
			run.Entries = append(run.Entries, e)
		}
		f.commit(t, run)
		statement := c.sql
		if c.bad != 0 {
			statement = fmt.Sprintf("update perdure_entries set %s where seq = %d", c.sql, c.bad)
		}
		if _, err := f.db.Exec(statement); err != nil {
			t.Fatal(err)
		}
		entries, err := f.Load(t.Context(), run.Run, store.Range{})
		if c.bad == 0 {
			if err != nil || len(entries) != 6 {
				t.Errorf("untouched: %+v, %v", entries, err)
			}
			continue
		}
		var corrupt *journal.CorruptError
		if !errors.As(err, &corrupt) || corrupt.Run != run.Run || corrupt.Seq != c.bad ||
			len(entries) != int(c.bad-1) {
			t.Errorf("%s: %d entries, %v", what, len(entries), err)
		}
	}
}

// spec: B-19
func TestALargePayloadIsBoundToItsNumberAndTheDatabase(t *testing.T) {
	f, g := newFile(t), newFile(t)
	for _, f := range []*file{f, g} {
		f.commit(t, newRun(t, f, f.engine))
	}
	run := newRun(t, f, f.engine).Run
	var data []byte
	if err := g.db.QueryRow("select data from perdure_spilled").Scan(&data); err != nil {
		t.Fatal(err)
	}
	r := store.Range{From: 3, Limit: 1, Payloads: true}
	if entries, err := f.Load(t.Context(), run, r); err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	if _, err := f.db.Exec("update perdure_spilled set data = ?", data); err != nil {
		t.Fatal(err)
	}
	var corrupt *journal.CorruptError
	if got, err := f.Load(t.Context(), run, r); !errors.As(err, &corrupt) || corrupt.Seq != 3 {
		t.Errorf("from another database, it is %+v, %v", got, err)
	}
}

// A message is bound to its name, key and ID, wherever it goes.
//
// spec: B-19
func TestAMovedMessageIsNotReadable(t *testing.T) {
	for what, other := range map[string]journal.Entry{
		"name": {Op: journal.Op{Name: "t", Key: "k"}},
		"key":  {Op: journal.Op{Name: "s", Key: "l"}},
		"ID": {
			Op:     journal.Op{Name: "s", Key: "k"},
			Detail: &journal.Detail{MessageDetail: journal.MessageDetail{Message: "m"}},
		},
	} {
		f := newFile(t)
		run := newRun(t, f, f.engine)
		first := journal.Entry{Op: journal.Op{Name: "s", Key: "k"}}
		run.Posts = nil
		for _, m := range []journal.Entry{first, other} {
			m.Kind, m.At, m.Data = journal.SignalReceived, time.Unix(1, 0), []byte("Ada")
			run.Posts = append(run.Posts, store.Post{Run: run.Run, Message: m})
		}
		f.commit(t, run)
		inbox := store.Range{Inbox: true}
		if got, err := f.Load(t.Context(), run.Run, inbox); err != nil || len(got) != 2 {
			t.Fatal(got, err)
		}
		if _, err := f.db.Exec("update perdure_messages set data = (select data from " +
			"perdure_messages where number = 1)"); err != nil {
			t.Fatal(err)
		}
		var corrupt *journal.CorruptError
		got, err := f.Load(t.Context(), run.Run, inbox)
		if !errors.As(err, &corrupt) || corrupt.Seq != 2 || len(got) != 1 {
			t.Errorf("with the payload of another %s: %+v, %v", what, got, err)
		}
		claimed, err := f.Claim(t.Context(), store.TakeRun{Engine: f.engine, Run: run.Run})
		if err != nil || len(claimed.Runs) != 1 || claimed.Runs[0].Err == nil ||
			len(claimed.Runs[0].Inbox) != 1 {
			t.Errorf("%s: claimed, it is %+v, %v", what, claimed, err)
		}
	}
}

// An entry of the outbox that is not readable is left out, and those behind it come.
//
// spec: B-19
func TestTheOutboxGoesOnBehindWhatIsNotReadable(t *testing.T) {
	f := newFile(t)
	run := newRun(t, f, f.engine)
	for i := range 4 {
		run.Entries = append(run.Entries, journal.Entry{
			Run: run.Run, Seq: int64(5 + i), Kind: journal.EventEmitted, At: time.Unix(1, 0),
			Op:     journal.Op{Name: "e", Occ: i + 1},
			Data:   []byte(`"Ada"`),
			Detail: &journal.Detail{Tell: true, EventDetail: journal.EventDetail{Event: "e"}},
		})
	}
	f.commit(t, run)
	if _, err := f.db.Exec("update perdure_entries set data = (select data from perdure_entries " +
		"where seq = 1) where seq in (5, 6, 8)"); err != nil {
		t.Fatal(err)
	}
	got, err := f.Claim(t.Context(), store.TakeOutbox{
		Engine: f.engine, Workflows: []string{"w"}, Limit: 1,
	})
	if err != nil || len(got.Outbox) != 1 || got.Outbox[0].Entry.Seq != 7 ||
		string(got.Outbox[0].Entry.Data) != `"Ada"` ||
		got.Outbox[0].Head.Cause != "it waits for Ada" || !got.More {
		t.Fatalf("%+v, %v", got, err)
	}
	got, err = f.Claim(t.Context(), store.TakeOutbox{
		Engine: f.engine, Workflows: []string{"w"}, Limit: 1, After: got.Outbox[0].Number,
	})
	if err != nil || len(got.Outbox) != 0 || got.More {
		t.Errorf("behind it: %+v, %v", got, err)
	}
}

// spec: B-19
func TestSettingsAreEncoded(t *testing.T) {
	below := open[*sqlite.Store](t)(sqlite.Open(filepath.Join(t.TempDir(), "runs.db")))
	s := wrap(t, below, "k")
	g := &store.Group{Now: time.Unix(1, 0), Changes: []store.Change{{Settings: []store.Setting{
		{Kind: "k", Name: "n", Value: []byte("Ada")}, {Kind: "k", Name: "gone"},
		{Kind: "k", Name: "empty", Value: []byte{}},
	}}}}
	if err := s.Commit(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(context.Context) (store.Info, error){
		"info": s.Info, "brief": store.AbilitiesOf(s).Briefer.Brief,
	} {
		info, err := read(t.Context())
		if err != nil || len(info.Settings) != 3 || string(info.Settings[0].Value) != "Ada" ||
			info.Settings[1].Value != nil || info.Settings[2].Value == nil {
			t.Errorf("%s: %+v, %v", name, info.Settings, err)
		}
	}
	info, err := below.Info(t.Context())
	if err != nil || strings.Contains(string(info.Settings[0].Value), "Ada") {
		t.Errorf("below: %+v, %v", info.Settings, err)
	}
	if _, err := wrap(t, below, "other").Info(t.Context()); err == nil ||
		!strings.Contains(err.Error(), `"n"`) || !strings.Contains(err.Error(), `key "k"`) {
		t.Errorf("without its key: %v", err)
	}
}

// What is written in a transaction of the application is encoded.
//
// spec: B-19
func TestATransactionIsEncoded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	below := open[*sqlite.Store](t)(sqlite.Open(path))
	s := wrap(t, below, "k")
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	part, err := store.AbilitiesOf(s).Transactor.In(tx)
	if err != nil {
		t.Fatal(err)
	}
	g := &store.Group{Now: time.Unix(1, 0), Changes: []store.Change{{Posts: []store.Post{{
		WorkflowID: "x", Until: time.Unix(100, 0), Message: journal.Entry{
			Kind: journal.SignalReceived, Op: journal.Op{Name: "s"}, At: time.Unix(1, 0),
			Data: []byte("Ada"),
		},
	}}}}}
	if err := part.Commit(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for s, want := range map[store.Store]bool{s: true, below: false} {
		messages, err := s.Load(t.Context(), 0, store.Range{Inbox: true})
		if err != nil || len(messages) != 1 || (string(messages[0].Data) == "Ada") != want {
			t.Errorf("%T: %+v, %v", s, messages, err)
		}
	}
}
