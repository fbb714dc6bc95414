package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// epoch is the start time of the suite. Its nanoseconds reveal times that were rounded.
var epoch = time.Date(2026, 2, 3, 4, 5, 6, 123456789, time.UTC)

// at returns the time some seconds after the epoch.
func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// A world is a database under test, a handle on it, and the engine that joined through it
// last.
type world struct {
	T
	db       Database
	s        store.Store
	database string // its identity
	engine   journal.EngineID
	runs     int64         // how many run numbers were used
	besides  []store.Store // further handles
}

func (w *world) open() {
	w.Helper()
	s, err := w.db.Open()
	if err != nil {
		w.Fatalf("open: %v", err)
	}
	w.s = s
	info, err := s.Info(w.Context())
	if err != nil {
		w.Fatalf("Info: %v", err)
	}
	w.database = info.Database
}

// reopen closes the handle and opens the database again: the process has died, and its lease
// has passed.
func (w *world) reopen() {
	w.Helper()
	if err := w.s.Close(); err != nil {
		w.Fatalf("Close: %v", err)
	}
	if w.db.Lapse != nil {
		w.ok(w.db.Lapse(w.engine))
	}
	w.open()
}

// join joins an engine through the handle.
func (w *world) join(seconds int) {
	w.Helper()
	got, err := w.s.Claim(w.Context(), store.Join{
		Self: store.Engine{
			Host: "host", PID: 42, Build: "b1", Slots: 7, Since: at(seconds),
			Workflows: []string{"v", "w"},
		},
		Now: at(seconds),
	})
	if err != nil {
		w.Fatalf("join: %v", err)
	}
	w.engine = got.Engine
}

// die reopens the database and joins again.
func (w *world) die(seconds int) {
	w.Helper()
	w.reopen()
	w.join(seconds)
}

// number returns the number of a new run.
func (w *world) number() journal.Number {
	w.Helper()
	w.runs++
	n, err := journal.MakeNumber(max(w.engine, 1), w.runs)
	if err != nil {
		w.Fatalf("number: %v", err)
	}
	return n
}

// start returns a new run of workflow "w" that the engine owns.
func (w *world) start(id string) store.Change {
	w.Helper()
	n := w.number()
	if id == "" {
		id = string(journal.MakeRunID(w.database, n))
	}
	return store.Change{
		Run: n, Create: true,
		Head: &journal.Head{
			Number: n, ID: journal.MakeRunID(w.database, n), WorkflowID: id, Workflow: "w",
			Status: journal.Running, Owner: w.engine, Wake: at(0), Created: at(0), Chain: n,
			Retain: "0s",
		},
		Entries: []journal.Entry{
			{
				Run: n, Seq: 1, Kind: journal.RunStarted, Status: journal.Running, At: at(0),
				Data: []byte(`{"in":1}`),
			},
		},
	}
}

// free returns a new run that no engine owns and that is due at a time.
func (w *world) free(id string, seconds int) store.Change {
	w.Helper()
	c := w.start(id)
	c.Head.Owner, c.Head.Wake, c.Head.Status = 0, at(seconds), journal.Pending
	return c
}

// step returns a change with the next entry of a run.
func step(run journal.Number, seq int64) store.Change {
	return store.Change{Run: run, Entries: []journal.Entry{{
		Run: run, Seq: seq, Kind: journal.StepCompleted, Op: journal.Op{
			Name: "charge", Occ: int(seq),
		},
		At: at(int(seq)), Took: time.Millisecond, Data: []byte(`{"out":1}`),
	}}}
}

// update returns a change of a run's head alone.
func update(h journal.Head, change func(*journal.Head)) store.Change {
	change(&h)
	return store.Change{Run: h.Number, Head: &h}
}

// ended returns a change that ends a run.
func ended(h journal.Head, seq int64, seconds int) store.Change {
	c := update(h, func(h *journal.Head) {
		h.Status, h.Owner, h.Wake, h.Ended, h.Last = journal.Completed, 0, time.Time{}, at(seconds),
			seq
	})
	c.Entries = []journal.Entry{
		{
			Run: h.Number, Seq: seq, Kind: journal.RunCompleted, Status: journal.Completed,
			At: at(seconds),
		},
	}
	return c
}

// group returns a group of the engine.
func (w *world) group(changes ...store.Change) *store.Group {
	return &store.Group{Engine: w.engine, Now: at(0), Changes: changes}
}

func (w *world) try(g *store.Group) error {
	for {
		if err := w.s.Commit(w.Context(), g); !errors.Is(err, store.ErrHeld) {
			return err
		}
	}
}

// commit commits changes and returns them with their verdicts.
func (w *world) commit(changes ...store.Change) []store.Change {
	w.Helper()
	if err := w.try(w.group(changes...)); err != nil {
		w.Fatalf("Commit: %v", err)
	}
	return changes
}

// written commits new runs, which must be written, and returns their heads.
func (w *world) written(changes ...store.Change) []journal.Head {
	w.Helper()
	var heads []journal.Head
	for _, c := range w.commit(changes...) {
		w.verdict(c, store.Written)
		heads = append(heads, *c.Head)
	}
	return heads
}

func (w *world) verdict(c store.Change, want store.Verdict) {
	w.Helper()
	if c.Verdict != want {
		w.Fatalf("the verdict on run %d is %d, want %d", c.Run, c.Verdict, want)
	}
}

// refused demands that a group is refused because of its data.
func (w *world) refused(g *store.Group) {
	w.Helper()
	err := w.try(g)
	if data := new(store.DataError); !errors.As(err, &data) {
		w.Fatalf("Commit = %v, want a DataError", err)
	}
}

func (w *world) is(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("the error is %v, want %v", err, want)
	}
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%v", err)
	}
}

func (w *world) load(run journal.Number, r store.Range) []journal.Entry {
	w.Helper()
	entries, err := w.s.Load(w.Context(), run, r)
	if err != nil {
		w.Fatalf("Load: %v", err)
	}
	return entries
}

// rows demands that a journal has n entries.
func (w *world) rows(run journal.Number, n int) {
	w.Helper()
	if got := w.load(run, store.Range{}); len(got) != n {
		w.Fatalf("run %d has %d entries, want %d", run, len(got), n)
	}
}

// head returns a run's head. The run must be there.
func (w *world) head(run journal.Number) journal.Head {
	w.Helper()
	heads := w.find(store.Filter{Run: journal.MakeRunID(w.database, run)})
	if len(heads) != 1 {
		w.Fatalf("run %d has %d heads", run, len(heads))
	}
	return heads[0]
}

// absent demands that there is no such run, and no row of it.
func (w *world) absent(run journal.Number) {
	w.Helper()
	if heads := w.find(store.Filter{Run: journal.MakeRunID(w.database, run)}); len(heads) != 0 {
		w.Fatalf("run %d is there", run)
	}
	w.rows(run, 0)
}

func (w *world) find(f store.Filter) []journal.Head {
	w.Helper()
	heads, _, err := w.s.Find(w.Context(), f)
	if err != nil {
		w.Fatalf("Find: %v", err)
	}
	return heads
}

// take claims runs of workflow "w".
func (w *world) take(seconds, most int) store.Claimed {
	w.Helper()
	return w.claim(store.TakeDue{
		Engine:    w.engine,
		Workflows: []string{"w"},
		Max:       most,
		Now:       at(seconds),
	})
}

func (w *world) claim(c store.Claim) store.Claimed {
	w.Helper()
	got, err := w.s.Claim(w.Context(), c)
	if err != nil {
		w.Fatalf("Claim: %v", err)
	}
	return got
}

// numbers returns the runs that a claim returned.
func numbers(c store.Claimed) []journal.Number {
	var out []journal.Number
	for _, r := range c.Runs {
		out = append(out, r.Head.Number)
	}
	return out
}

// same demands that two values are equal. Times are equal if they mean the same moment.
func (w *world) same(what string, got, want any) {
	w.Helper()
	if g, v := text(got), text(want); g != v {
		w.Fatalf("%s:\n got %s\nwant %s", what, g, v)
	}
}

// text returns a text of a value: equal values have equal texts, and different values
// different texts.
func text(v any) string {
	switch v := v.(type) {
	case []journal.Entry:
		return list(v)
	case []journal.Head:
		return list(v)
	case []store.Run:
		return list(v)
	case journal.Entry:
		e := v
		detail := "none"
		if e.Detail != nil {
			b, err := journal.EncodeDetail(e.Detail)
			detail = fmt.Sprintf("%q %v", b, err)
		}
		return fmt.Sprintf("{%d/%d %v %v %+q at %s took %d data %s spill %d detail %s}",
			e.Run, e.Seq, e.Kind, e.Status, fmt.Sprintf("%#v", e.Op), moment(e.At), e.Took,
			payload(e.Data), e.Spill, detail)
	case journal.Head:
		h := v
		h.Wake, h.Created, h.Ended = time.Time{}, time.Time{}, time.Time{}
		return fmt.Sprintf("{%#v wake %s created %s ended %s}", h, moment(v.Wake),
			moment(v.Created), moment(v.Ended))
	case store.Run:
		return fmt.Sprintf("{%s %s last %d inbox %s more %v err %v}", text(v.Head), list(v.Entries),
			v.Last, list(v.Inbox), v.More, v.Err)
	}
	if reflect.ValueOf(v).Kind() == reflect.Slice && reflect.ValueOf(v).Len() == 0 {
		return "[]"
	}
	return fmt.Sprintf("%#v", v)
}

func list[E any](all []E) string {
	s := ""
	for i := range all {
		s += "\n  " + text(all[i])
	}
	return s
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// payload returns a text of bytes. Nil and empty differ, and long bytes are shortened to a
// checksum.
func payload(b []byte) string {
	switch {
	case b == nil:
		return "nil"
	case len(b) > 64:
		sum := uint64(14695981039346656037) // FNV-1a
		for _, c := range b {
			sum = (sum ^ uint64(c)) * 1099511628211
		}
		return fmt.Sprintf("%d bytes, sum %x", len(b), sum)
	}
	return fmt.Sprintf("%q", b)
}
