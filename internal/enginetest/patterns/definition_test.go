package patterns

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"

	"github.com/perdure/perdure/internal/enginetest/world"
)

func TestWrongDefinitionsAreToldByRegister(t *testing.T) {
	eng, err := perdure.New(memory.New(), perdure.Options{Build: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := eng.Register(perdure.Define("taken", world.Nothing)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		def  perdure.Definition
		code journal.Code
	}{
		"duplicate": {perdure.Define("taken", world.Nothing), journal.CodeDuplicate},
		"empty":     {perdure.Define("", world.Nothing), journal.CodeInvalid},
		"space":     {perdure.Define("a b", world.Nothing), journal.CodeInvalid},
		"long": {
			perdure.Define(strings.Repeat("x", 256), world.Nothing), journal.CodeInvalid,
		},
		"no function": {perdure.Define[int, int]("nil", nil), journal.CodeInvalid},
		"bad retry": {perdure.Define("r", world.Nothing, perdure.Retry{Factor: 0.5}),
			journal.CodeInvalid},
		"nil option": {perdure.Define("n", world.Nothing, nil), journal.CodeInvalid},
		"bad replays": {perdure.Define("p", world.Nothing, perdure.Replays{Factor: 0.5}),
			journal.CodeInvalid},
	} {
		if err := eng.Register(c.def); journal.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	if err := eng.Register(nil); journal.CodeOf(err) != journal.CodeInvalid {
		t.Error("a nil workflow:", err)
	}
	if _, err := perdure.New(nil, perdure.Options{}); journal.CodeOf(err) != journal.CodeInvalid {
		t.Error("an engine without a store:", err)
	}
}

func TestBadRetries(t *testing.T) {
	for _, r := range []perdure.Retry{
		{Attempts: -1}, {First: -time.Second}, {Cap: -1}, {Factor: 0.5}, {Factor: math.NaN()},
		{Factor: math.Inf(1)},
		{Jitter: 2}, {Jitter: -0.1}, {Jitter: math.NaN()}, {On: []error{nil}},
		{On: []error{fmt.Errorf("not registered")}},
	} {
		if err := r.Validate(); journal.CodeOf(err) != journal.CodeInvalid {
			t.Errorf("%+v: %v", r, err)
		}
	}
	r := perdure.Retry{
		Attempts: math.MaxInt, First: math.MaxInt64, Cap: math.MaxInt64, Factor: 1e300,
	}
	for _, n := range []int{-1, 0, 1, 2, 1000, math.MaxInt} {
		if d := r.Delay(n); d != math.MaxInt64 {
			t.Errorf("delay after attempt %d: %v", n, d)
		}
	}
}

func TestMisuseIsRefused(t *testing.T) {
	ctx := context.Background()
	if _, err := perdure.Step(ctx, "s",
		world.Work("s", 0, nil)); journal.CodeOf(err) != journal.CodeMisuse {
		t.Error("outside a workflow:", err)
	}
	if _, err := perdure.Once(ctx, "k", func() (int, error) {
		return 0, nil
	}); journal.CodeOf(err) != journal.CodeMisuse {
		t.Error("outside a step:", err)
	}
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			_, err := perdure.Step(ctx, "outer", func(in context.Context) (int, error) {
				for name, c := range map[string]context.Context{"own": in, "outer": ctx} {
					if _, err := perdure.Step(c, "inner",
						world.Work("inner", 0, nil)); journal.CodeOf(err) != journal.CodeMisuse {
						t.Errorf("a step in a step with its %s context: %v", name, err)
					}
					if _, err := perdure.Async(c, "inner",
						world.Work("inner", 0, nil)).
						Await(c); journal.CodeOf(err) != journal.CodeMisuse {
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
				_, err := perdure.Step(ctx, "foreign", world.Work("foreign", 0, nil))
				foreign <- err
				return 0, nil
			})
			if _, err := perdure.Step(ctx, "wait", world.Work("wait", time.Second,
				nil)); err != nil {
				return "", err
			}
			if err := <-foreign; journal.CodeOf(err) != journal.CodeMisuse {
				t.Error("from a goroutine that the engine did not start:", err)
			}
			for _, name := range []string{
				"", "a b", "a/b", "ä", "a\x00", strings.Repeat("x", 256),
			} {
				if _, err := perdure.Step(ctx, name,
					world.Work("", 0, nil)); journal.CodeOf(err) != journal.CodeInvalid {
					t.Errorf("step %q: %v", name, err)
				}
				if name == "" {
					continue
				}
				if _, err := perdure.Step(ctx, "s", world.Work("", 0, nil),
					perdure.Key(name)); journal.CodeOf(err) != journal.CodeInvalid {
					t.Errorf("key %q: %v", name, err)
				}
			}
			if _, err := perdure.Step[int](ctx, "s",
				nil); journal.CodeOf(err) != journal.CodeInvalid {
				t.Error("no function:", err)
			}
			if _, err := perdure.Step(ctx, "s", world.Work("", 0, nil),
				nil); journal.CodeOf(err) != journal.CodeInvalid {
				t.Error("nil option:", err)
			}
			if _, err := perdure.Go[int](ctx, "s",
				nil).Await(ctx); journal.CodeOf(err) != journal.CodeInvalid {
				t.Error("branch without a function:", err)
			}
			if _, err := perdure.Step(ctx, "s", world.Work("", 0, nil),
				perdure.Timeout(-1)); journal.CodeOf(err) != journal.CodeInvalid {
				t.Error("negative timeout:", err)
			}
			return "ok", nil
		})
		w := world.New(t, wf)
		defer w.End()
		run, out, err := world.Result(w, wf, 0)
		if out != "ok" || err != nil {
			t.Fatal(out, err)
		}
		if n := len(w.History(run.ID())); n != 6 {
			t.Errorf("%d entries: what was refused left something: %v", n,
				world.Tail(w.History(run.ID()), 9))
		}
		for _, id := range []string{"a b", "", strings.Repeat("x", 256), "a\nb"} {
			if _, err := wf.Start(context.Background(), w.Engine, 0,
				perdure.ID(id)); journal.CodeOf(err) != journal.CodeInvalid {
				t.Errorf("start %q: %v", id, err)
			}
			if _, err := w.Engine.Describe(context.Background(),
				id); journal.CodeOf(err) != journal.CodeInvalid {
				t.Errorf("describe %q: %v", id, err)
			}
		}
	})
}

func TestUnregisteredWorkflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t)
		defer func() { w.End() }()
		known := perdure.Define("later", func(_ context.Context, in string) (string, error) {
			return in + "!", nil
		})
		_, err := known.Start(context.Background(), w.Engine, "x")
		world.CodeIs(t, err, journal.CodeUnregistered)
		if _, err := w.Engine.Start(context.Background(), "later", []byte(`"hello"`),
			perdure.ID("x")); err != nil {
			t.Fatal(err)
		}
		d, err := w.Engine.Describe(context.Background(), "x")
		if err != nil || d.Head.Status != journal.Pending ||
			!strings.Contains(d.Why, "no engine has workflow later") {
			t.Errorf("%v: %s, %v", d.Head.Status, d.Why, err)
		}
		w.Deploy("test", known)
		run, err := w.Engine.Start(context.Background(), "later", []byte(`"other"`),
			perdure.ID("x"))
		if err != nil || run.New() {
			t.Fatal(run, err)
		}
		if out, err := run.Result(context.Background()); string(out) != `"hello!"` || err != nil {
			t.Errorf("%s %v", out, err)
		}
		w.History("x")
	})
}
