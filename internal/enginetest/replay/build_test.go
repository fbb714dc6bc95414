package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store/memory"
)

// A list is written by steps and read by a test.
type list struct {
	mu    sync.Mutex
	names []string
}

func (l *list) add(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names = append(l.names, name)
}

// steps is a workflow of steps that take a minute each. It returns the names of those whose bodies
// were executed.
func steps(executed *list, names ...string) perdure.Definition {
	return perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		var out []string
		for _, name := range names {
			name, added := strings.CutPrefix(name, "+")
			name, was, _ := strings.Cut(name, "<")
			var opts []perdure.StepOption
			if added {
				opts = append(opts, perdure.Added)
			}
			if was != "" {
				opts = append(opts, perdure.RenamedFrom(was))
			}
			v, err := perdure.Step(ctx, name, func(context.Context) (string, error) {
				executed.add(name)
				time.Sleep(time.Minute)
				return strings.ToUpper(name), nil
			}, opts...)
			if err != nil {
				return "", err
			}
			out = append(out, v)
		}
		return strings.Join(out, " "), nil
	})
}

// spec: B-1
func TestAnotherBuildIsReplayedByName(t *testing.T) {
	for _, c := range []struct {
		name     string
		code     []string
		out      string
		executed []string // by the new build
		told     []string
	}{
		{"same", []string{"a", "b", "c", "d"}, "A B C D", []string{"c", "d"}, nil},
		{"step added before", []string{"+x", "a", "b", "c", "d"}, "X A B C D", []string{
			"x", "c", "d",
		}, []string{"x: new in this build"}},
		{"step removed", []string{"b", "c", "d"}, "B C D", []string{"c", "d"}, []string{
			"a: recorded, and unused by this build",
		}},
		{
			"step replaced",
			[]string{"a", "+x", "+c", "+d"},
			"A X C D",
			[]string{"x", "c", "d"},
			[]string{"x: new in this build", "b: recorded, and unused by this build"},
		},
		{"reordered", []string{"b", "a", "c"}, "B A C", []string{"c"}, nil},
		{"renamed", []string{"z<a", "b", "c", "d"}, "A B C D", []string{"c", "d"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var before, executed list
				w := world.New(t, steps(&before, "a", "b", "c", "d"))
				defer func() { w.End() }()
				if _, err := w.Engine.Start(context.Background(), "w", []byte("0"),
					perdure.ID("x")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(150 * time.Second) // a and b are recorded, c is being executed
				w.Deploy("second", steps(&executed, c.code...))
				time.Sleep(time.Hour)
				d, err := w.Engine.Describe(context.Background(), "x")
				if err != nil || d.Head.Status != journal.Completed {
					t.Fatal(d.Head.Status, d.Why, err)
				}
				entries := w.History("x")
				if out := string(entries[len(entries)-1].Data); out != `"`+c.out+`"` {
					t.Errorf("output %s, want %s", out, c.out)
				}
				if !slices.Equal(executed.names, c.executed) {
					t.Errorf("executed %v, want %v", executed.names, c.executed)
				}
				var told []string
				for _, n := range w.Seen(observe.ReplayDiffered) {
					told = append(told, n.Step+": "+n.Reason)
				}
				if !slices.Equal(told, c.told) {
					t.Errorf("told %q, want %q", told, c.told)
				}
			})
		})
	}
}

// A difference is reported when the new build claims the run, not when the run ends. A wait with a
// context of one's own is not a difference.
//
// spec: B-1
func TestAnotherBuildIsToldOfWhileTheRunWaits(t *testing.T) {
	asked := perdure.NewSignal[int]("asked")
	code := func(names ...string) *perdure.Workflow[int, int] {
		return perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			short, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			f := perdure.Async(ctx, "first", world.Work("first", time.Second, nil))
			if _, err := f.Await(short); err != nil {
				return 0, err
			}
			for _, name := range names {
				if _, err := perdure.Step(ctx, name, world.Work(name, 0, nil)); err != nil {
					return 0, err
				}
			}
			in, err := perdure.Scope(ctx, "inner")
			if err != nil {
				return 0, err
			}
			for _, name := range names {
				if _, err := perdure.Step(in, name, world.Work(name, 0, nil)); err != nil {
					return 0, err
				}
			}
			return asked.Wait(ctx)
		})
	}
	again := func(w *world.World) { // has the run replayed
		w.T.Helper()
		if err := w.Engine.Suspend(context.Background(), "x", "a moment"); err != nil {
			w.T.Fatal(err)
		}
		if err := w.Engine.Resume(context.Background(), "x"); err != nil {
			w.T.Fatal(err)
		}
		time.Sleep(time.Minute)
	}
	for _, idle := range []time.Duration{-1, 0} {
		synctest.Test(t, func(t *testing.T) {
			w := &world.World{
				T:         t,
				DB:        memory.New(),
				Workflows: []perdure.Definition{code("a", "b")},
			}
			w.Options = perdure.Options{Build: "test", IdleTimeout: idle}
			w.Begin()
			defer func() { w.End() }()
			if _, err := w.Engine.Start(context.Background(), "w", []byte("0"),
				perdure.ID("x")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			w.Deploy("second", code("a", "b"))
			again(w)
			if told := w.Seen(observe.ReplayDiffered); len(told) > 0 {
				t.Errorf("the same code was told of: %v", told)
			}
			w.Deploy("third", code("b"))
			again(w)
			d, err := w.Engine.Describe(context.Background(), "x")
			if err != nil || d.Head.Status != journal.Waiting {
				t.Error(d.Head.Status, d.Why, err)
			}
			var told []string
			for _, n := range w.Seen(observe.ReplayDiffered) {
				told = append(told, n.Step+": "+n.Reason)
			}
			slices.Sort(told)
			if want := []string{
				"a: " + observe.OperationUnused, "inner/a: " + observe.OperationUnused,
			}; !slices.Equal(told, want) {
				t.Errorf("told %q, want %q", told, want)
			}
		})
	}
}

// spec: B-1
func TestMismatchParksTheRun(t *testing.T) {
	branch := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		return perdure.Go(ctx, "a", func(context.Context) (string, error) { return "", nil }).
			Await(ctx)
	})
	var executed list
	for _, c := range []struct {
		name, build string
		code        perdure.Definition
		says        []string
	}{
		{
			"another kind in another build",
			"second",
			branch,
			[]string{`a branch or scope "a"`, `a step "a" as entry 2`},
		},
		{
			"another kind in the same build",
			"test",
			branch,
			[]string{`a branch or scope "a"`, `a step "a" as entry 2`},
		},
		{"a missing step in the same build", "test", steps(&executed, "a", "z"), []string{
			`attempts a step "z"`, `a step "b" as entry 3`, "the same build",
		}},
		{"an early end in the same build", "test", steps(&executed, "a"), []string{
			"the code ends", `a step "b" as entry 3`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world.New(t, steps(&executed, "a", "b", "c", "d"))
				defer func() { w.End() }()
				if _, err := w.Engine.Start(context.Background(), "w", []byte("0"),
					perdure.ID("x")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(150 * time.Second)
				before := len(w.History("x"))
				w.Deploy(c.build, c.code)
				time.Sleep(time.Hour)
				d, err := w.Engine.Describe(context.Background(), "x")
				if err != nil || d.Head.Status != journal.Suspended {
					t.Fatal(d.Head.Status, err)
				}
				for _, s := range c.says {
					if !strings.Contains(d.Why, s) {
						t.Errorf("why: %s, does not say %s", d.Why, s)
					}
				}
				marks := world.Tail(w.History("x"), len(w.History("x"))-before)
				marks = slices.DeleteFunc(marks, func(s string) bool { return s == "RunClaimed" })
				if !slices.Equal(marks, []string{"RunSuspended"}) {
					t.Error("written beside the mark:", marks)
				}
				if parked := w.Seen(observe.RunParked); len(parked) != 1 {
					t.Errorf("told %d times", len(parked))
				}
				// the code that fits is deployed, and an operator lets the run go on
				w.Deploy("test", steps(&executed, "a", "b", "c", "d"))
				if err := w.Engine.Resume(context.Background(), "x"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				if d, err := w.Engine.Describe(context.Background(), "x"); err != nil ||
					d.Head.Status != journal.Completed {
					t.Error(d.Head.Status, d.Why, err)
				}
			})
		})
	}
}

// spec: B-1
func TestKeyIsAdvisedWhereAnotherBuildReplaysOccurrences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code := func(opts ...perdure.StepOption) perdure.Definition {
			return perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
				for i := range 4 {
					opts := slices.Clone(opts)
					if len(opts) > 0 {
						opts[0] = perdure.Key(fmt.Sprint(i))
					}
					if _, err := perdure.Step(ctx, "ship", world.Work("ship", time.Minute, nil),
						opts...); err != nil {
						return 0, err
					}
				}
				return 0, nil
			})
		}
		for i, opts := range [][]perdure.StepOption{nil, {perdure.Key("k")}} {
			w := world.New(t, code(opts...))
			if _, err := w.Engine.Start(context.Background(), "w", []byte("0"),
				perdure.ID("x")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(150 * time.Second)
			w.Deploy("second", code(opts...))
			time.Sleep(time.Hour)
			w.End()
			if advised := w.Seen(observe.KeyAdvised); len(advised) != 1-i {
				t.Errorf("with options %v advised %d times: %+v", opts, len(advised), advised)
			}
		}
	})
}

// A workflow whose path depends on the clock is caught every time that it matters, and one that
// does not depend on it is never blamed.
//
// spec: B-1
func TestStrictReplayBlamesTheRightCode(t *testing.T) {
	replays := 20000
	if testing.Short() {
		replays = 2000
	}
	good := perdure.Define("good", func(ctx context.Context, _ int) (int, error) {
		f := perdure.Async(ctx, "async", world.Work("async", 0, nil))
		g := perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
			return perdure.Step(ctx, "in", world.Work("in", 0, nil))
		})
		for _, name := range []string{"first", "second", "last"} {
			if _, err := perdure.Step(ctx, name, world.Work(name, 0, nil)); err != nil {
				return 0, err
			}
		}
		if _, err := f.Await(ctx); err != nil {
			return 0, err
		}
		return g.Await(ctx)
	})
	flips := 0
	clock := perdure.Define("clock", func(ctx context.Context, _ int) (int, error) {
		flips++
		name := []string{"am", "pm"}[flips%2]
		for _, name := range []string{"first", name, "last"} {
			if _, err := perdure.Step(ctx, name, world.Work(name, 0, nil)); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			wf     perdure.Definition
			name   string
			n      int
			caught bool
		}{{good, "good", replays, false}, {clock, "clock", 200, true}} {
			w := world.New(t, c.wf)
			if _, err := w.Engine.Start(context.Background(), c.name, []byte("0"),
				perdure.ID("x")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			entries := w.History("x")
			w.End()
			for i := 0; i < c.n; i++ {
				// from the second step on, so that the clock has decided something
				prefix := entries[:3+i%(len(entries)-3)]
				if c.caught {
					flips = 1
					if prefix[2].Op.Name == "am" {
						flips = 0
					}
				}
				if parked := parkedOn(t, c.wf, c.name, prefix); parked != c.caught {
					t.Fatalf("%s, replay %d of %v: parked %v", c.name, i, world.Tail(prefix, 9),
						parked)
				}
			}
		}
	})
}

// parkedOn reports whether the replay of a journal parks the run.
func parkedOn(t *testing.T, wf perdure.Definition, name string, entries []journal.Entry) bool {
	w := &world.World{T: t, DB: plant(t, name, entries), Workflows: []perdure.Definition{wf}}
	w.Options.Build = "test"
	w.Begin()
	defer w.End()
	synctest.Wait()
	d, err := w.Engine.Describe(context.Background(), "planted")
	if err != nil {
		t.Fatal(err)
	}
	return d.Head.Status == journal.Suspended
}

// A cardError is an error type with data.
type cardError struct {
	Card   string
	Reason string
}

func (e *cardError) Error() string { return "card " + e.Card + ": " + e.Reason }

var errSoldOut = errors.New("sold out")

func init() {
	if err := errors.Join(perdure.RegisterError("test.soldout", errSoldOut),
		perdure.RegisterErrorType[*cardError]("test.card")); err != nil {
		panic(err)
	}
}

// spec: B-12
func TestErrorsKeepTheirIdentity(t *testing.T) {
	unregistered := errors.New("unregistered")
	synctest.Test(t, func(t *testing.T) {
		fail := fmt.Errorf("order 5: %w", errors.Join(unregistered,
			fmt.Errorf("shop: %w", errSoldOut), &cardError{"4711", "expired"}))
		var seen []string
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			_, err := perdure.Step(ctx, "s", func(context.Context) (int, error) { return 0, fail },
				perdure.NoRetry)
			var card *cardError
			seen = append(seen, fmt.Sprintf("%v|%v|%v|%+v", err, errors.Is(err, errSoldOut),
				errors.As(err, &card) && *card == cardError{"4711", "expired"},
				errors.Is(err, unregistered)))
			if _, err := perdure.Step(ctx, "t", world.Work("t", time.Minute, nil)); err != nil {
				return 0, err
			}
			return 0, fmt.Errorf("fulfil: %w", err)
		})
		w := world.New(t, wf)
		defer func() { w.End() }()
		world.Start(w, wf, 0, perdure.ID("x"))
		time.Sleep(time.Second)
		w.Crash()
		run, err := wf.Get(context.Background(), w.Engine, "x")
		if err != nil {
			t.Fatal(err)
		}
		_, err = run.Result(context.Background())
		var card *cardError
		if err == nil || err.Error() != "fulfil: step s: "+fail.Error() ||
			!errors.Is(err, errSoldOut) || !errors.As(err, &card) || card.Card != "4711" {
			t.Errorf("the run's error: %v", err)
		}
		if len(seen) != 2 || seen[0] != seen[1] || !strings.HasSuffix(seen[0], "|true|true|false") {
			t.Errorf("live and replayed:\n%s", strings.Join(seen, "\n"))
		}
	})
}

// spec: B-12
func TestClassesAreFoundInTheChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts, delays, fixed := map[string]int{}, map[string]time.Duration{}, false
		var last time.Time
		step := func(ctx context.Context, name string, mark func(error) error) error {
			_, err := perdure.Step(ctx, name, func(context.Context) (int, error) {
				attempts[name]++
				delays[name], last = time.Since(last), time.Now()
				if name == "park" && fixed {
					return 0, nil
				}
				return 0, fmt.Errorf("wrapped: %w", mark(world.ErrOdd))
			})
			return err
		}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if err := step(ctx, "permanent", perdure.Permanent); !errors.Is(err, world.ErrOdd) ||
				attempts["permanent"] != 1 {
				t.Errorf("permanent: %v after %d attempts", err, attempts["permanent"])
			}
			after := func(err error) error { return perdure.RetryAfter(7*time.Hour, err) }
			if err := step(ctx, "after", after); !errors.Is(err, world.ErrOdd) ||
				delays["after"] != 7*time.Hour {
				t.Errorf("retry after: %v, %v", err, delays["after"])
			}
			if err := step(ctx, "benign", perdure.Benign); !errors.Is(err, world.ErrOdd) {
				t.Errorf("benign: %v", err)
			}
			return 1, step(ctx, "park", perdure.Parking)
		})
		w := world.New(t, wf)
		defer func() { w.End() }()
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		d, err := w.Engine.Describe(context.Background(), run.ID())
		if err != nil || d.Head.Status != journal.Suspended || !strings.Contains(d.Why, "odd") ||
			attempts["park"] != 1 {
			t.Fatalf("park: %v %s, %d attempts, %v", d.Head.Status, d.Why, attempts["park"], err)
		}
		for _, n := range w.Seen(observe.StepFailed) {
			if n.Benign != (n.Step == "benign") {
				t.Errorf("%s: benign %v", n.Step, n.Benign)
			}
		}
		fixed = true
		if err := w.Engine.Resume(context.Background(), run.ID()); err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(context.Background()); out != 1 || err != nil {
			t.Error(out, err)
		}
		if attempts["permanent"] != 1 || attempts["after"] != 3 || attempts["park"] != 2 {
			t.Error(attempts)
		}
		w.History(run.ID())
	})
}

// A run whose rows are not readable is parked, and the others go on.
//
// spec: B-1
func TestRunThatCannotBeReadIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var executed list
		entries := []journal.Entry{
			{Seq: 1, Kind: journal.RunStarted, Status: journal.Running, Data: []byte("0")},
			{Seq: 2, Kind: 99, Op: journal.Op{Name: "a", Occ: 1}},
			{
				Seq:  3,
				Kind: journal.StepCompleted,
				Op:   journal.Op{Name: "b", Occ: 1},
				Data: []byte(`"B"`),
			},
		}
		w := &world.World{T: t, DB: plant(t, "w", entries),
			Workflows: []perdure.Definition{steps(&executed, "a", "b")}}
		w.Options.Build = "test"
		w.Begin()
		defer w.End()
		if _, err := w.Engine.Start(context.Background(), "w", []byte("0"),
			perdure.ID("y")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		d, err := w.Engine.Describe(context.Background(), "planted")
		world.CodeIs(t, err, journal.CodeCorrupt)
		if d.Head.Status != journal.Suspended || !strings.Contains(d.Why, "entry 2") {
			t.Errorf("%v: %s", d.Head.Status, d.Why)
		}
		if d, err := w.Engine.Describe(context.Background(), "y"); err != nil ||
			d.Head.Status != journal.Completed {
			t.Error("the other run:", d.Head.Status, err)
		}
	})
}
