package codec_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/codec"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// run executes an engine with those workflows until the returned function is called.
func run(t testing.TB, s store.Store, workflows ...perdure.Definition) (*perdure.Engine, func()) {
	t.Helper()
	engine, err := perdure.New(s, perdure.Options{
		Build: "test", Logger: slog.New(slog.DiscardHandler), IdleTimeout: -1,
	})
	if err == nil {
		err = engine.Register(workflows...)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	return engine, func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func ok[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// await waits until the run has that status.
func await(t testing.TB, c *perdure.Client, id string, want journal.Status) journal.Head {
	t.Helper()
	for {
		d, err := c.Describe(t.Context(), id)
		if d.Head.Status == want {
			return d.Head
		}
		if d.Head.Status.IsTerminal() || t.Context().Err() != nil {
			t.Fatalf("run %s is %v, %v", id, d.Head.Status, err)
		}
	}
}

// canary returns a text that is in no database by chance.
func canary(what string) string { return "canary-" + strings.ReplaceAll(what, " ", "-") + "-bird" }

// places are where an application has its values.
var places = []string{
	"input", "result", "large result", "signal", "unrouted signal", "failure", "child input",
	"child failure", "published value", "variable", "header", "set header", "event", "checkpoint",
	"payload", "cancel reason", "park reason", "output",
}

type carried struct{ Text string }

func (c carried) Error() string { return c.Text }

var word = perdure.NewSignal[string]("word")

// bird has a canary in everything that an application may store.
func bird() (*perdure.Workflow[string, string], *perdure.Workflow[string, string]) {
	child := perdure.Define("chick", func(_ context.Context, in string) (string, error) {
		return "", carried{canary("child failure") + in}
	})
	return perdure.Define("bird", func(ctx context.Context, _ string) (string, error) {
		_, err := perdure.Step(ctx, "lay", func(ctx context.Context) (string, error) {
			_, err := perdure.Once(ctx, "egg", func() (string, error) {
				return canary("checkpoint"), nil
			})
			return canary("result"), err
		})
		_, err2 := perdure.Step(ctx, "large", func(context.Context) (string, error) {
			return strings.Repeat(canary("large result"), 10_000), nil
		})
		_, failed := perdure.Step(ctx, "fail", func(context.Context) (int, error) {
			return 0, perdure.Permanent(carried{canary("failure")})
		})
		_, failed2 := child.Child(ctx, canary("child input")).Await(ctx)
		if failed == nil || failed2 == nil {
			return "", errors.New("nothing failed")
		}
		if err := errors.Join(err, err2,
			perdure.Publish(ctx, "song", canary("published value")),
			perdure.SetVariable(ctx, "nest", canary("variable")),
			perdure.Emit(ctx, "flown", canary("event")),
			perdure.SetPayload(ctx, canary("payload")),
			perdure.Headers{"flock": canary("set header")}.Set(ctx),
		); err != nil {
			return "", err
		}
		if _, err := word.Wait(ctx); err != nil {
			return "", err
		}
		if _, err := perdure.Park(ctx, "rest", canary("park reason"), "go"); err != nil {
			return "", err
		}
		return canary("output"), nil
	}), child
}

// fly makes a database with all canaries. It returns the bytes of the file, of the files beside it,
// and of a backup.
func fly(t *testing.T, c codec.Codec) (stored []byte) {
	ctx := t.Context()
	dir := t.TempDir()
	below := ok[*sqlite.Store](t)(sqlite.Open(filepath.Join(dir, "runs.db")))
	defer below.Close()
	s := ok[store.Store](t)(codec.Wrap(ctx, below, c))
	parent, child := bird()
	engine, stop := run(t, s, parent, child)
	client := engine.Client
	r := ok[*perdure.Run[string]](t)(parent.Start(ctx, engine, canary("input"), perdure.ID("bird"),
		perdure.Headers{"flock": canary("header")}))
	ok[perdure.Delivery](t)(word.Send(ctx, engine, "nobody", canary("unrouted signal")))
	if err := admin.New(engine).RotateKey(ctx, admin.Note{By: "ada"}); err != nil {
		t.Fatal(err)
	}
	ok[perdure.Delivery](t)(word.Send(ctx, engine, "bird", canary("signal")))
	if head := await(t, client, "bird", journal.Suspended); head.Status == 0 {
		t.Fatal("it has no status")
	}
	stored = append(stored, bytesOf(t, dir)...)
	d := ok[perdure.Description](t)(client.Describe(ctx, "bird"))
	if !strings.Contains(fmt.Sprintf("%+v", d), canary("park reason")) {
		t.Errorf("the reason is not in %+v", d)
	}
	cancelled := ok[*perdure.Run[string]](t)(parent.Start(ctx, engine, "x", perdure.ID("caged")))
	if err := engine.Cancel(ctx, "caged", canary("cancel reason")); err != nil {
		t.Fatal(err)
	}
	if _, err := cancelled.Result(ctx); err == nil ||
		!strings.Contains(err.Error(), canary("cancel reason")) {
		t.Errorf("the cancelled run has %v", err)
	}
	if err := engine.Decide(ctx, "bird", "rest", perdure.Decision{Choice: "go"}); err != nil {
		t.Fatal(err)
	}
	if out := ok[string](t)(r.Result(ctx)); out != canary("output") {
		t.Errorf("the output is %q", out)
	}
	found, _, err := client.List(ctx, perdure.Query{
		Error: strings.ToUpper(canary("child failure")),
	})
	if err != nil || len(found) != 1 || found[0].Workflow != "chick" {
		t.Errorf("found by their failure: %+v, %v", found, err)
	}
	info := ok[store.Info](t)(s.Info(ctx))
	if len(info.Settings) == 0 {
		t.Error("there is no key for tokens")
	}
	if err := below.Backup(ctx, filepath.Join(dir, "copy.db")); err != nil {
		t.Fatal(err)
	}
	stored = append(stored, bytesOf(t, dir)...)
	stop()
	stored = append(stored, bytesOf(t, dir)...)
	for _, v := range info.Settings {
		if bytes.Contains(stored, v.Value) != (c == plain) {
			t.Errorf("the setting of kind %q is in the file: %v", v.Kind, c != plain)
		}
	}
	return stored
}

// plain stores everything as it is.
var plain = codec.New(codec.Options{CompressFrom: -1})

// bytesOf returns the bytes of all files in a folder.
func bytesOf(t *testing.T, dir string) (all []byte) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}

// Nothing of what an application stores is in the files of its database, nor in a backup. Without
// encryption all of it is, so the test would find it.
//
// spec: B-18, B-19
func TestNothingIsClearInTheDatabase(t *testing.T) {
	clear := fly(t, plain)
	for _, what := range places {
		if !bytes.Contains(clear, []byte(canary(what))) {
			t.Errorf("without encryption, no %s is in the file", what)
		}
	}
	sealed := fly(t, codec.New(codec.Options{Keys: keysOf(t, "k")}))
	for _, what := range places {
		if bytes.Contains(sealed, []byte(canary(what))) {
			t.Errorf("the %s is clear in the file", what)
		}
	}
	if bytes.Contains(sealed, []byte("canary")) || bytes.Contains(sealed, []byte("bird-bird")) {
		t.Error("a part of a canary is clear in the file")
	}
}

// nap is a workflow that waits between two steps.
func nap() *perdure.Workflow[string, string] {
	return perdure.Define("nap", func(ctx context.Context, in string) (string, error) {
		before, err := perdure.Step(ctx, "before", func(context.Context) (string, error) {
			return in + " fell asleep", nil
		})
		if err != nil {
			return "", err
		}
		said, err := word.Wait(ctx)
		return before + " and " + said, err
	})
}

// Runs go on over three keys. A run whose key is not there is parked with the reason, and goes on
// when the key is there again.
//
// spec: B-19
func TestRunsGoOnOverARotation(t *testing.T) {
	ctx := t.Context()
	below := open[*sqlite.Store](t)(sqlite.Open(filepath.Join(t.TempDir(), "runs.db")))
	def := nap()
	with := func(ids ...string) (*perdure.Engine, func()) {
		return run(t, wrap(t, below, ids...), def)
	}
	for i, ids := range [][]string{{"a"}, {"b", "a"}, {"c", "b", "a"}} {
		engine, stop := with(ids...)
		id := fmt.Sprint("run-", i)
		ok[*perdure.Run[string]](t)(def.Start(ctx, engine, ids[0], perdure.ID(id)))
		await(t, engine.Client, id, journal.Waiting)
		stop()
	}
	engine, stop := with("c", "b")
	for i := range 3 {
		ok[perdure.Delivery](t)(word.Send(ctx, engine, fmt.Sprint("run-", i), "woke up"))
	}
	for i, want := range []string{"", "b fell asleep and woke up", "c fell asleep and woke up"} {
		if want == "" {
			head := await(t, engine.Client, "run-0", journal.Suspended)
			if !strings.Contains(head.Cause, `key "a"`) || !strings.Contains(head.Cause, "add it") {
				t.Errorf("it is parked because %s", head.Cause)
			}
			continue
		}
		r := ok[*perdure.Run[string]](t)(def.Get(ctx, engine, fmt.Sprint("run-", i)))
		if out := ok[string](t)(r.Result(ctx)); out != want {
			t.Errorf("run %d gave %q", i, out)
		}
	}
	stop()
	engine, stop = with("c", "b", "a")
	defer stop()
	if err := engine.Resume(ctx, "run-0"); err != nil {
		t.Fatal(err)
	}
	r := ok[*perdure.Run[string]](t)(def.Get(ctx, engine, "run-0"))
	if out := ok[string](t)(r.Result(ctx)); out != "a fell asleep and woke up" {
		t.Errorf("with its key, it gave %q", out)
	}
}

// Somebody exchanges the payloads of two runs in the database. Both runs are parked, and the reason
// names the entry. Another run goes on.
//
// spec: B-19
func TestARunWithAPayloadOfAnotherIsParked(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "runs.db")
	below := open[*sqlite.Store](t)(sqlite.Open(path))
	s := wrap(t, below, "k")
	def := nap()
	engine, stop := run(t, s, def)
	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		ok[*perdure.Run[string]](t)(def.Start(ctx, engine, id, perdure.ID(id)))
		await(t, engine.Client, id, journal.Waiting)
	}
	stop()
	db := ok[*sql.DB](t)(sql.Open("sqlite", "file:"+filepath.ToSlash(path)))
	defer db.Close()
	ok[sql.Result](t)(db.Exec(`with moved as (select e.run, e.seq, o.data from perdure_entries e
		join perdure_heads h on h.number = e.run join perdure_entries o on o.seq = e.seq
		join perdure_heads g on g.number = o.run
		where e.name = 'before'
		and (h.workflow_id, g.workflow_id) in (values ('a', 'b'), ('b', 'a')))
		update perdure_entries as e set data = m.data from moved m
		where m.run = e.run and m.seq = e.seq`))
	engine, stop = run(t, s, def)
	defer stop()
	for _, id := range ids {
		ok[perdure.Delivery](t)(word.Send(ctx, engine, id, "woke up"))
	}
	for _, id := range ids[:2] {
		head := await(t, engine.Client, id, journal.Suspended)
		want := fmt.Sprintf("of run %d cannot be read", head.Number)
		if !strings.Contains(head.Cause, want) || !strings.Contains(head.Cause, "entry ") {
			t.Errorf("it is parked because %s", head.Cause)
		}
		_, err := engine.History(ctx, id, 0, 0)
		var e *journal.Error
		if !errors.As(err, &e) || e.Code != journal.CodeCorrupt {
			t.Errorf("its journal gives %v", err)
		}
	}
	r := ok[*perdure.Run[string]](t)(def.Get(ctx, engine, "c"))
	if out := ok[string](t)(r.Result(ctx)); out != "c fell asleep and woke up" {
		t.Errorf("the other one gave %q", out)
	}
}

// An engine without the codec executes no run that was encoded. With the codec the run goes on.
//
// spec: B-19
func TestAnEngineWithoutTheCodecParksWhatIsEncoded(t *testing.T) {
	ctx := t.Context()
	below := open[*sqlite.Store](t)(sqlite.Open(filepath.Join(t.TempDir(), "runs.db")))
	def := nap()
	engine, stop := run(t, below, def) // before the codec is used
	ok[*perdure.Run[string]](t)(def.Start(ctx, engine, "clear", perdure.ID("clear")))
	await(t, engine.Client, "clear", journal.Waiting)
	stop()
	engine, stop = run(t, wrap(t, below, "k"), def)
	ok[*perdure.Run[string]](t)(def.Start(ctx, engine, "sealed", perdure.ID("sealed")))
	await(t, engine.Client, "sealed", journal.Waiting)
	stop()
	engine, stop = run(t, below, def)
	ok[perdure.Delivery](t)(word.Send(ctx, engine, "sealed", "woke up"))
	head := await(t, engine.Client, "sealed", journal.Suspended)
	if !strings.Contains(head.Cause, "codec") {
		t.Errorf("it is parked because %s", head.Cause)
	}
	stop()
	engine, stop = run(t, wrap(t, below, "k"), def)
	defer stop()
	if err := engine.Resume(ctx, "sealed"); err != nil {
		t.Fatal(err)
	}
	ok[perdure.Delivery](t)(word.Send(ctx, engine, "clear", "woke up"))
	for _, id := range []string{"clear", "sealed"} {
		r := ok[*perdure.Run[string]](t)(def.Get(ctx, engine, id))
		if out := ok[string](t)(r.Result(ctx)); out != id+" fell asleep and woke up" {
			t.Errorf("%s gave %q", id, out)
		}
	}
}

// A run that is retried has copies of entries of the failed one, which are bound to it.
//
// spec: B-19
func TestARetryIsBoundAnew(t *testing.T) {
	ctx := t.Context()
	s := wrap(t, open[*sqlite.Store](t)(sqlite.Open(filepath.Join(t.TempDir(), "runs.db"))), "k")
	calls, large := 0, strings.Repeat("x", 200_000)
	def := perdure.Define("twice", func(ctx context.Context, in string) (string, error) {
		big, err := perdure.Step(ctx, "big", func(context.Context) (string, error) {
			calls++
			return in, nil
		})
		if err != nil {
			return "", err
		}
		return perdure.Step(ctx, "once", func(context.Context) (string, error) {
			if calls++; calls == 2 {
				return "", perdure.Permanent(errors.New("the first time"))
			}
			return big, nil
		})
	})
	engine, stop := run(t, s, def)
	defer stop()
	r := ok[*perdure.Run[string]](t)(def.Start(ctx, engine, large, perdure.ID("r")))
	if _, err := r.Result(ctx); err == nil {
		t.Fatal("it did not fail")
	}
	retried := ok[*perdure.Run[json.RawMessage]](t)(engine.Retry(ctx, "r"))
	again := ok[*perdure.Run[string]](t)(def.Get(ctx, engine, retried.RunID()))
	if out := ok[string](t)(again.Result(ctx)); out != large || calls != 3 {
		t.Errorf("it gave %d bytes after %d calls", len(out), calls)
	}
	entries := ok[[]journal.Entry](t)(engine.History(ctx, again.RunID(), 0, 0))
	if !slices.ContainsFunc(entries, func(e journal.Entry) bool { return e.Spill != 0 }) {
		t.Error("no payload was kept apart")
	}
}

// An engine that cannot read the settings does not begin: it would not obey them.
//
// spec: B-18, B-19
func TestNoEngineBeginsThatCannotReadTheSettings(t *testing.T) {
	below := open[*sqlite.Store](t)(sqlite.Open(filepath.Join(t.TempDir(), "runs.db")))
	def := nap()
	engine, stop := run(t, wrap(t, below, "a"), def)
	if err := admin.New(engine).PauseWorkflow(t.Context(), "nap", admin.Note{}); err != nil {
		t.Fatal(err)
	}
	stop()
	for what, s := range map[string]store.Store{"no codec": below, "no key": wrap(t, below, "b")} {
		engine := ok[*perdure.Engine](t)(perdure.New(s, perdure.Options{
			Logger: slog.New(slog.DiscardHandler),
		}))
		err := engine.Run(t.Context())
		var e *journal.Error
		if !errors.Is(err, store.ErrEncoded) || !errors.As(err, &e) ||
			!strings.Contains(e.Hint, "codec") {
			t.Errorf("with %s, it ends with %v", what, err)
		}
		var missing *codec.KeyError
		if errors.As(err, &missing) != (what == "no key") {
			t.Errorf("with %s, it ends with %v", what, err)
		}
	}
	engine, stop = run(t, wrap(t, below, "b", "a"), def)
	defer stop()
	ok[*perdure.Run[string]](t)(def.Start(t.Context(), engine, "x", perdure.ID("x")))
	await(t, engine.Client, "x", journal.Pending)
}
