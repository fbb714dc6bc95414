package perdure_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
)

func nothing(context.Context, int) (int, error) { return 0, nil }

func TestWrongDefinitionsAreToldByRegister(t *testing.T) {
	eng, err := perdure.New(memory.New(), perdure.Options{Build: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := eng.Register(perdure.Define("taken", nothing)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		def  perdure.Definition
		code journal.Code
	}{
		"duplicate":   {perdure.Define("taken", nothing), journal.CodeDuplicate},
		"empty":       {perdure.Define("", nothing), journal.CodeInvalid},
		"space":       {perdure.Define("a b", nothing), journal.CodeInvalid},
		"long":        {perdure.Define(strings.Repeat("x", 256), nothing), journal.CodeInvalid},
		"no function": {perdure.Define[int, int]("nil", nil), journal.CodeInvalid},
		"bad retry":   {perdure.Define("r", nothing, perdure.Retry{Factor: 0.5}), journal.CodeInvalid},
		"nil option":  {perdure.Define("n", nothing, nil), journal.CodeInvalid},
		"bad replays": {perdure.Define("p", nothing, perdure.Replays{Factor: 0.5}), journal.CodeInvalid},
	} {
		if err := eng.Register(c.def); perdureCode(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	if err := eng.Register(nil); perdureCode(err) != journal.CodeInvalid {
		t.Error("a nil workflow:", err)
	}
	if _, err := perdure.New(nil, perdure.Options{}); perdureCode(err) != journal.CodeInvalid {
		t.Error("an engine without a store:", err)
	}
}

func perdureCode(err error) journal.Code { return journal.CodeOf(err) }

func TestBadRetries(t *testing.T) {
	for _, r := range []perdure.Retry{
		{Attempts: -1}, {First: -time.Second}, {Cap: -1}, {Factor: 0.5}, {Factor: math.NaN()}, {Factor: math.Inf(1)},
		{Jitter: 2}, {Jitter: -0.1}, {Jitter: math.NaN()}, {On: []error{nil}}, {On: []error{fmt.Errorf("not registered")}},
	} {
		if err := r.Validate(); perdureCode(err) != journal.CodeInvalid {
			t.Errorf("%+v: %v", r, err)
		}
	}
	r := perdure.Retry{Attempts: math.MaxInt, First: math.MaxInt64, Cap: math.MaxInt64, Factor: 1e300}
	for _, n := range []int{-1, 0, 1, 2, 1000, math.MaxInt} {
		if d := r.Delay(n); d != math.MaxInt64 {
			t.Errorf("delay after attempt %d: %v", n, d)
		}
	}
}

func TestMisuseIsRefused(t *testing.T) {
	ctx := context.Background()
	if _, err := perdure.Step(ctx, "s", work("s", 0, nil)); perdureCode(err) != journal.CodeMisuse {
		t.Error("outside a workflow:", err)
	}
	if _, err := perdure.Once(ctx, "k", func() (int, error) { return 0, nil }); perdureCode(err) != journal.CodeMisuse {
		t.Error("outside a step:", err)
	}
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			_, err := perdure.Step(ctx, "outer", func(in context.Context) (int, error) {
				for name, c := range map[string]context.Context{"own": in, "outer": ctx} {
					if _, err := perdure.Step(c, "inner", work("inner", 0, nil)); perdureCode(err) != journal.CodeMisuse {
						t.Errorf("a step in a step with its %s context: %v", name, err)
					}
					if _, err := perdure.Async(c, "inner", work("inner", 0, nil)).Await(c); perdureCode(err) != journal.CodeMisuse {
						t.Errorf("an async step in a step with its %s context: %v", name, err)
					}
				}
				return 0, nil
			})
			if err != nil {
				return "", err
			}
			foreign := make(chan error, 1)
			perdure.Async(ctx, "asks", func(context.Context) (int, error) {
				_, err := perdure.Step(ctx, "foreign", work("foreign", 0, nil))
				foreign <- err
				return 0, nil
			})
			if _, err := perdure.Step(ctx, "wait", work("wait", time.Second, nil)); err != nil {
				return "", err
			}
			if err := <-foreign; perdureCode(err) != journal.CodeMisuse {
				t.Error("from a goroutine that the engine did not start:", err)
			}
			for _, name := range []string{"", "a b", "a/b", "ä", "a\x00", strings.Repeat("x", 256)} {
				if _, err := perdure.Step(ctx, name, work("", 0, nil)); perdureCode(err) != journal.CodeInvalid {
					t.Errorf("step %q: %v", name, err)
				}
				if name == "" {
					continue
				}
				if _, err := perdure.Step(ctx, "s", work("", 0, nil), perdure.Key(name)); perdureCode(err) != journal.CodeInvalid {
					t.Errorf("key %q: %v", name, err)
				}
			}
			if _, err := perdure.Step[int](ctx, "s", nil); perdureCode(err) != journal.CodeInvalid {
				t.Error("no function:", err)
			}
			if _, err := perdure.Step(ctx, "s", work("", 0, nil), nil); perdureCode(err) != journal.CodeInvalid {
				t.Error("nil option:", err)
			}
			if _, err := perdure.Go[int](ctx, "s", nil).Await(ctx); perdureCode(err) != journal.CodeInvalid {
				t.Error("branch without a function:", err)
			}
			if _, err := perdure.Step(ctx, "s", work("", 0, nil), perdure.Timeout(-1)); perdureCode(err) != journal.CodeInvalid {
				t.Error("negative timeout:", err)
			}
			return "ok", nil
		})
		w := newWorld(t, wf)
		defer w.end()
		run, out, err := result(w, wf, 0)
		if out != "ok" || err != nil {
			t.Fatal(out, err)
		}
		if n := len(w.history(run.ID())); n != 6 {
			t.Errorf("%d entries: what was refused left something: %v", n, tail(w.history(run.ID()), 9))
		}
		for _, id := range []string{"a b", "", strings.Repeat("x", 256), "a\nb"} {
			if _, err := wf.Start(context.Background(), w.eng, 0, perdure.ID(id)); perdureCode(err) != journal.CodeInvalid {
				t.Errorf("start %q: %v", id, err)
			}
			if _, err := w.eng.Describe(context.Background(), id); perdureCode(err) != journal.CodeInvalid {
				t.Errorf("describe %q: %v", id, err)
			}
		}
	})
}

func TestUnregisteredWorkflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() { w.end() }()
		known := perdure.Define("later", func(_ context.Context, in string) (string, error) { return in + "!", nil })
		_, err := known.Start(context.Background(), w.eng, "x")
		codeIs(t, err, journal.CodeUnregistered)
		if _, err := w.eng.Start(context.Background(), "later", []byte(`"hello"`), perdure.ID("x")); err != nil {
			t.Fatal(err)
		}
		d, err := w.eng.Describe(context.Background(), "x")
		if err != nil || d.Head.Status != journal.Pending || !strings.Contains(d.Why, "knows workflow later") {
			t.Errorf("%v: %s, %v", d.Head.Status, d.Why, err)
		}
		w.deploy("test", known)
		run, err := w.eng.Start(context.Background(), "later", nil, perdure.ID("x"))
		if err != nil || run.New() {
			t.Fatal(run, err)
		}
		if out, err := run.Result(context.Background()); string(out) != `"hello!"` || err != nil {
			t.Errorf("%s %v", out, err)
		}
		w.history("x")
	})
}

// spec: B-3
func TestValuesThatCannotBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		executed := map[string]int{}
		keep := func(ctx context.Context, name string, v any) error {
			_, err := perdure.Step(ctx, name, func(context.Context) (any, error) { executed[name]++; return v, nil })
			return err
		}
		wf := perdure.Define("w", func(ctx context.Context, in struct{ N int }) (any, error) {
			codeIs(t, keep(ctx, "chan", make(chan int)), journal.CodeEncode)
			codeIs(t, keep(ctx, "utf8", "a\xffb"), journal.CodeEncode)
			codeIs(t, keep(ctx, "large", strings.Repeat("x", 999)), journal.CodeTooLarge)
			if err := keep(ctx, "limit", strings.Repeat("x", 998)); err != nil {
				t.Error("at the limit:", err)
			}
			if err := keep(ctx, "large", strings.Repeat("x", 999)); err == nil || !strings.Contains(err.Error(), "limit of one payload is 1000") {
				t.Error("the limit is not named:", err)
			}
			_, err := perdure.Step(ctx, "decode", func(context.Context) (picky, error) { executed["decode"]++; return picky{}, nil })
			codeIs(t, err, journal.CodeDecode)
			return make([]byte, in.N), nil
		})
		w := &world{t: t, db: memory.New(), workflows: []perdure.Definition{wf}}
		w.opts = perdure.Options{Build: "test", MaxPayload: 1000}
		w.begin()
		defer w.end()
		run, _, err := result(w, wf, struct{ N int }{2000})
		codeIs(t, err, journal.CodeTooLarge)
		for name, n := range executed {
			if n != 1 && name != "large" || n > 2 {
				t.Errorf("%s was executed %d times", name, n)
			}
		}
		w.history(run.ID())
		_, err = w.eng.Start(context.Background(), "w", make([]byte, 1001))
		codeIs(t, err, journal.CodeTooLarge)
		for _, input := range []string{`{"N":"x"}`, `not json`, ``, "\xff\x00"} {
			run, err := w.eng.Start(context.Background(), "w", []byte(input))
			if err != nil {
				t.Fatal(err)
			}
			_, err = run.Result(context.Background())
			codeIs(t, err, journal.CodeDecode)
			if n := len(w.history(run.ID())); n != 2 {
				t.Errorf("input %q: %d entries", input, n)
			}
		}
	})
}

// picky encodes and does not decode.
type picky struct{}

func (picky) MarshalJSON() ([]byte, error)  { return []byte(`"x"`), nil }
func (*picky) UnmarshalJSON(b []byte) error { return fmt.Errorf("no") }

// spec: B-3
func TestBytesAreKeptExactly(t *testing.T) {
	odd := [][]byte{{}, {0}, []byte("a\x00b"), {0xff, 0xfe}, []byte("\u2028\ufffd"), bytes.Repeat([]byte{0x80, 0}, 200_000)}
	wf := perdure.Define("w", func(ctx context.Context, in []byte) ([]byte, error) {
		out, err := perdure.Step(ctx, "s", func(context.Context) ([]byte, error) { return in, nil })
		if err != nil || !bytes.Equal(out, in) {
			t.Errorf("%q came back as %q, %v", in, out, err)
		}
		_, err = perdure.Step(ctx, "text", func(context.Context) (string, error) { return "a\x00\u2028\ufffd<&>", nil })
		if err != nil {
			t.Error(err)
		}
		return out, err
	})
	s, err := sqlite.Open(filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	eng, err := perdure.New(s, perdure.Options{Build: "test"})
	if err == nil {
		err = eng.Register(wf)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	for i, in := range odd {
		run, err := wf.Start(ctx, eng, in)
		if err != nil {
			t.Fatal(err)
		}
		out, err := run.Result(ctx)
		if err != nil || !bytes.Equal(out, in) {
			t.Errorf("%d: %d bytes came back as %d, %v", i, len(in), len(out), err)
		}
		entries, err := eng.History(ctx, run.ID(), 0, 0)
		if err != nil || !bytes.Equal(entries[0].Data, in) || !bytes.Equal(entries[1].Data, in) || !bytes.Equal(entries[3].Data, in) {
			t.Errorf("%d: the history has other bytes, %v", i, err)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// spec: R-27
func TestGetOrStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code := func(_ context.Context, d time.Duration) (time.Duration, error) { return d, nil }
		slow := func(ctx context.Context, d time.Duration) (time.Duration, error) {
			_, err := perdure.Step(ctx, "s", work("s", d, nil))
			return d, err
		}
		wf, other := perdure.Define("w", slow), perdure.Define("other", code)
		w := newWorld(t, wf, other)
		defer w.end()
		ctx := context.Background()
		start := func(d time.Duration, opts ...perdure.StartOption) *perdure.Run[time.Duration] {
			t.Helper()
			run, err := wf.Start(ctx, w.eng, d, opts...)
			if err != nil {
				t.Fatal(err)
			}
			return run
		}
		var first []*perdure.Run[time.Duration]
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 50 { // at the same time
			wg.Go(func() {
				run := start(time.Hour, perdure.ID("x"))
				mu.Lock()
				first = append(first, run)
				mu.Unlock()
			})
		}
		wg.Wait()
		fresh := 0
		for _, run := range first {
			if run.RunID() != first[0].RunID() {
				t.Error("two runs for one ID")
			}
			if run.New() {
				fresh++
			}
		}
		if fresh != 1 {
			t.Errorf("%d of them are new", fresh)
		}
		_, err := other.Start(ctx, w.eng, 0, perdure.ID("x"))
		codeIs(t, err, journal.CodeConflict)
		if again := start(5, perdure.ID("x")); again.New() {
			t.Error("a second run while one is open")
		} else if d, err := again.Result(ctx); d != time.Hour || err != nil {
			t.Error("the first run's input is", d, err)
		}
		if again := start(5, perdure.ID("x")); again.New() {
			t.Error("a second run within the window")
		}
		if now := start(7, perdure.ID("x"), perdure.Dedup(0)); !now.New() {
			t.Error("a window of 0 is not open runs only")
		} else if _, err := now.Result(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(24*time.Hour - time.Minute)
		if start(5, perdure.ID("x")).New() {
			t.Error("a second run a minute before the window ends")
		}
		time.Sleep(2 * time.Minute)
		if !start(5, perdure.ID("x")).New() {
			t.Error("no new run after the window")
		}
		if a, b := start(1), start(1); !a.New() || !b.New() || a.ID() == b.ID() {
			t.Error("starts without an ID are one")
		}
		_, err = wf.Start(ctx, w.eng, 1, perdure.Dedup(-1))
		codeIs(t, err, journal.CodeInvalid)
	})
}

// A run whose rows cannot be read is parked, the rest go on.
//
// spec: B-1
func TestRunThatCannotBeReadIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var executed list
		entries := []journal.Entry{
			{Seq: 1, Kind: journal.RunStarted, Status: journal.Running, Data: []byte("0")},
			{Seq: 2, Kind: 99, Op: journal.Op{Name: "a", Occ: 1}},
			{Seq: 3, Kind: journal.StepCompleted, Op: journal.Op{Name: "b", Occ: 1}, Data: []byte(`"B"`)},
		}
		w := &world{t: t, db: plant(t, "w", entries), workflows: []perdure.Definition{steps(&executed, "a", "b")}}
		w.opts.Build = "test"
		w.begin()
		defer w.end()
		if _, err := w.eng.Start(context.Background(), "w", []byte("0"), perdure.ID("y")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		d, err := w.eng.Describe(context.Background(), "planted")
		codeIs(t, err, journal.CodeCorrupt)
		if d.Head.Status != journal.Suspended || !strings.Contains(d.Why, "entry 2") {
			t.Errorf("%v: %s", d.Head.Status, d.Why)
		}
		if d, err := w.eng.Describe(context.Background(), "y"); err != nil || d.Head.Status != journal.Completed {
			t.Error("the other run:", d.Head.Status, err)
		}
	})
}

// naps does two steps, sleeps for an hour and does a third.
func naps(late *atomic.Int32) *perdure.Workflow[int, int] {
	return perdure.Define("naps", func(ctx context.Context, _ int) (int, error) {
		for _, name := range []string{"a", "b"} {
			if err := plain(ctx, name); err != nil {
				return 0, err
			}
		}
		if err := perdure.Sleep(ctx, time.Hour); err != nil {
			return 0, err
		}
		return perdure.Step(ctx, "late", func(context.Context) (int, error) { return int(late.Add(1)), nil })
	})
}

// A journal with a hole is never run past. What is known of its run can be read still,
// and it can be cancelled.
//
// spec: B-4
func TestARunWithAHoleInItsJournalIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Int32
		def := naps(&late)
		w := newShop(t, perdure.Options{Linger: -1}, def)
		ctx := t.Context()
		run := must[*perdure.Run[int]](t)(def.Start(ctx, w.eng, 0))
		synctest.Wait()
		must[sql.Result](t)(w.db.Exec("delete from perdure_entries where seq = 2"))
		d, err := w.eng.Describe(ctx, run.ID())
		codeIs(t, err, journal.CodeCorrupt)
		if !strings.Contains(err.Error(), "entry 2 ") || !strings.Contains(d.Why, "damaged") {
			t.Errorf("of one that rests it says %v, and %q", err, d.Why)
		}
		time.Sleep(2 * time.Hour)
		d, err = w.eng.Describe(ctx, run.ID())
		codeIs(t, err, journal.CodeCorrupt)
		if d.Head.Status != journal.Suspended || !strings.Contains(d.Why, "entry 2 ") || d.State.Seq != 1 || late.Load() != 0 {
			t.Errorf("%v: %q, %d entries are read, the late step was done %d times", d.Head.Status, d.Why, d.State.Seq, late.Load())
		}
		report, err := w.eng.Report(ctx, run.ID())
		codeIs(t, err, journal.CodeCorrupt)
		if report.Name != "naps" || report.Status != journal.Suspended || report.Started.IsZero() {
			t.Errorf("the report is %+v", report)
		}
		parked, _, err := w.eng.Parked(ctx, 0, 0)
		if err != nil || len(parked) != 1 || !strings.Contains(parked[0].Why, "entry 2 ") {
			t.Errorf("parked are %+v, %v", parked, err)
		}
		must[[]perdure.Marker](t)(w.eng.Versions(ctx, ""))
		must[[]perdure.Stale](t)(w.eng.Stale(ctx, time.Minute))
		if err := w.eng.Cancel(ctx, run.ID(), "lost"); err != nil {
			t.Fatal(err)
		}
		if st := must[[]perdure.Status](t)(w.eng.Statuses(ctx, run.ID())); st[0].Head.Status != journal.Cancelled {
			t.Errorf("cancelled, it is %v", st[0].Head.Status)
		}
	})
}

// A run whose journal is damaged is cancelled from another process, whatever it is parked
// for.
//
// spec: B-4, L-16
func TestADamagedRunIsCancelledByAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Int32
		def := naps(&late)
		w := newShop(t, perdure.Options{Linger: -1}, def)
		ctx := t.Context()
		client := must[*perdure.Client](t)(perdure.NewClient(ctx, w.s))
		run := must[*perdure.Run[int]](t)(def.Start(ctx, w.eng, 0))
		synctest.Wait()
		must[sql.Result](t)(w.db.Exec("delete from perdure_entries where seq = 2"))
		time.Sleep(2 * time.Hour)
		if st := must[[]perdure.Status](t)(client.Statuses(ctx, run.ID())); st[0].Head.Status != journal.Suspended {
			t.Fatalf("it is %v", st[0].Head.Status)
		}
		if err := client.Cancel(ctx, run.ID(), "lost"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if st := must[[]perdure.Status](t)(client.Statuses(ctx, run.ID())); st[0].Head.Status != journal.Cancelled {
			t.Errorf("cancelled, it is %v", st[0].Head.Status)
		}
	})
}

// A dead letter that is damaged is listed as such, beside the others, with what can be
// read of it, and can be deleted.
//
// spec: P-4, B-4
func TestADamagedDeadLetterIsListedAsSuch(t *testing.T) {
	for _, seq := range []int{1, 2} {
		t.Run(fmt.Sprint("entry ", seq), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				def := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
					return perdure.Step(ctx, "s", func(context.Context) (int, error) { return 0, errOdd }, perdure.NoRetry)
				}, perdure.DeadLetters(true))
				w := newShop(t, perdure.Options{Linger: -1}, def)
				ctx := t.Context()
				for i := range 3 {
					run := must[*perdure.Run[int]](t)(def.Start(ctx, w.eng, i, perdure.ID(fmt.Sprint("x", i))))
					_, _ = run.Result(ctx)
				}
				synctest.Wait()
				letters, _, err := w.eng.DeadLetters(ctx, perdure.DeadLetterQuery{WorkflowID: "x1"})
				if err != nil || len(letters) != 1 {
					t.Fatal(letters, err)
				}
				id := letters[0].ID
				must[sql.Result](t)(w.db.Exec("delete from perdure_entries where seq = ? and run = (select number from perdure_heads where workflow_id = ?)", seq, id))
				letters, _, err = w.eng.DeadLetters(ctx, perdure.DeadLetterQuery{})
				if err != nil || len(letters) != 3 {
					t.Fatalf("there are %+v, %v", letters, err)
				}
				for _, l := range letters {
					if (l.Damaged != "") != (l.ID == id) || (l.WorkflowID == "") != (l.ID == id && seq == 1) {
						t.Errorf("listed is %+v", l)
					}
				}
				if err := w.eng.DeleteDeadLetter(ctx, id); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				if letters, _, err = w.eng.DeadLetters(ctx, perdure.DeadLetterQuery{}); err != nil || len(letters) != 2 {
					t.Errorf("one was deleted, and there are %+v, %v", letters, err)
				}
			})
		})
	}
}

// A letter whose first entry is lost names no run. To retry it is refused as corrupt, and
// it can still be deleted.
//
// spec: B-4
func TestARetryOfADamagedDeadLetterSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(context.Context) (int, error) { return 0, errOdd }, perdure.NoRetry)
		}, perdure.DeadLetters(true))
		w := newShop(t, perdure.Options{Linger: -1}, def)
		ctx := t.Context()
		run := must[*perdure.Run[int]](t)(def.Start(ctx, w.eng, 0, perdure.ID("x")))
		_, _ = run.Result(ctx)
		synctest.Wait()
		letters, _, err := w.eng.DeadLetters(ctx, perdure.DeadLetterQuery{})
		if err != nil || len(letters) != 1 {
			t.Fatal(letters, err)
		}
		id := letters[0].ID
		must[sql.Result](t)(w.db.Exec("delete from perdure_entries where seq = 1 and run = (select number from perdure_heads where workflow_id = ?)", id))
		_, err = w.eng.RetryDeadLetter(ctx, id)
		codeIs(t, err, journal.CodeCorrupt)
		if err := w.eng.DeleteDeadLetter(ctx, id); err != nil {
			t.Error(err)
		}
	})
}

// The engine does not rely on the driver to see it.
//
// spec: B-4
func TestAHoleThatADriverOverlooksParksTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Int32
		def := naps(&late)
		h := &hook{claim: func(_ store.Claim, do func() (store.Claimed, error)) (store.Claimed, error) {
			claimed, err := do()
			for i := range claimed.Runs {
				r := &claimed.Runs[i]
				r.Entries = slices.DeleteFunc(r.Entries, func(e journal.Entry) bool { return e.Seq == 2 })
			}
			return claimed, err
		}}
		w := hooked(t, h, perdure.Options{Linger: -1}, def)
		defer func() { w.end() }()
		run := must[*perdure.Run[int]](t)(def.Start(t.Context(), w.eng, 0))
		time.Sleep(2 * time.Hour)
		d := must[perdure.Description](t)(w.eng.Describe(t.Context(), run.ID()))
		if d.Head.Status != journal.Suspended || !strings.Contains(d.Why, "entry 2 ") || late.Load() != 0 {
			t.Errorf("%v: %q, the late step was done %d times", d.Head.Status, d.Why, late.Load())
		}
	})
}

// A workflow that blocks outside the engine keeps its own branches from going
// on only for a while.
func TestTurnIsLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			var wg sync.WaitGroup
			for range 3 {
				wg.Add(1)
				perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
					defer wg.Done()
					return perdure.Step(ctx, "s", work("s", time.Second, nil))
				})
			}
			wg.Wait() // outside the engine
			return perdure.Step(ctx, "end", work("end", 0, nil))
		})
		w := newWorld(t, wf)
		defer w.end()
		run, _, err := result(w, wf, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n := w.seen(observe.TurnLent); len(n) != 1 || !strings.Contains(n[0].Reason, "after b#3") {
			t.Errorf("told: %+v", n)
		}
		w.history(run.ID())
	})
}

// What Go exits a workflow with is its code's failure, not its end.
//
// spec: L-16
func TestGoexitInWorkflowCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if n++; n == 1 {
				runtime.Goexit()
			}
			return n, nil
		})
		w := newWorld(t, wf)
		defer w.end()
		if _, out, err := result(w, wf, 0); out != 2 || err != nil {
			t.Fatal(out, err)
		}
	})
}

// A slowStore takes a while before it commits.
type slowStore struct{ store.Store }

func (s slowStore) Commit(ctx context.Context, g *store.Group) error {
	time.Sleep(time.Millisecond)
	return s.Store.Commit(ctx, g)
}

// No step begins, and nobody hears of a start, before what precedes it is
// durable.
func TestCommitBeforeConsequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		durable := func(id string, kind journal.Kind, name string) {
			t.Helper()
			entries, err := w.eng.History(context.Background(), id, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.Kind == kind && e.Op.Name == name {
					return
				}
			}
			t.Errorf("%v %s is not durable", kind, name)
		}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			for i := range 3 {
				_, err := perdure.Step(ctx, fmt.Sprint("s", i), func(ctx context.Context) (int, error) {
					durable("x", journal.RunStarted, "")
					if i > 0 {
						durable("x", journal.StepCompleted, fmt.Sprint("s", i-1))
					}
					return 0, nil
				})
				if err != nil {
					return 0, err
				}
			}
			return perdure.Async(ctx, "a", func(ctx context.Context) (int, error) {
				durable("x", journal.StepStarted, "a")
				if _, err := perdure.Once(ctx, "k", func() (int, error) { return 1, nil }); err != nil {
					return 0, err
				}
				durable("x", journal.CheckpointSaved, "a")
				return 0, nil
			}).Await(ctx)
		})
		w = &world{t: t, db: memory.New(), workflows: []perdure.Definition{wf}}
		w.opts.Build = "test"
		w.wrap = func(s store.Store) store.Store { return slowStore{s} }
		w.begin()
		defer w.end()
		_, _, err := result(w, wf, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		durable("x", journal.RunCompleted, "")
	})
}

func TestJSONValuesOfAnyKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
			return perdure.Step(ctx, "s", func(context.Context) (json.RawMessage, error) { return in, nil })
		})
		w := newWorld(t, wf)
		defer w.end()
		for _, in := range []string{`{ "a" : [1, 2.50, null] }`, `"\ufffd"`, `0`} {
			if _, out, err := result(w, wf, json.RawMessage(in)); string(out) != in || err != nil {
				t.Errorf("%s came back as %s, %v", in, out, err)
			}
		}
	})
}

// A brokenStore commits until it is broken.
type brokenStore struct {
	store.Store
	broken *atomic.Bool
}

func (s brokenStore) Commit(ctx context.Context, g *store.Group) error {
	if s.broken.Load() {
		return errOdd
	}
	return s.Store.Commit(ctx, g)
}

func TestEngineStopsWhileTheStoreDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", work("s", time.Second, nil))
		})
		w := &world{t: t, db: memory.New(), workflows: []perdure.Definition{wf}}
		w.opts = perdure.Options{Build: "test", Drain: 5 * time.Second}
		w.wrap = func(s store.Store) store.Store { return brokenStore{s, &broken} }
		w.begin()
		if _, err := wf.Start(context.Background(), w.eng, 0, perdure.ID("x")); err != nil {
			t.Fatal(err)
		}
		broken.Store(true)
		time.Sleep(time.Minute) // the result waits to be durable
		w.stop()
		began := time.Now()
		codeIs(t, <-w.done, journal.CodeUnavailable)
		if d := time.Since(began); d != 5*time.Second {
			t.Error("stopped after", d)
		}
		broken.Store(false)
		w.db = w.db.Reopen()
		w.begin()
		defer w.end()
		run, err := wf.Get(context.Background(), w.eng, "x")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(context.Background()); out != 7 || err != nil {
			t.Error(out, err)
		}
		w.history("x")
	})
}
