package steps

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/store/memory"
)

// spec: B-1
func TestRecordedValuesAreTheSameOnReplay(t *testing.T) {
	world.OverCrashes(t, 5, func() world.Scenario {
		l := world.NewLedger()
		n := 0
		var mu sync.Mutex
		next := func() (int, error) {
			mu.Lock()
			defer mu.Unlock()
			n++
			if n%2 == 1 {
				return 0, world.ErrOdd
			}
			return n, nil
		}
		wf := perdure.Define("w", func(ctx context.Context, _ int) ([]string, error) {
			see := func() (string, error) {
				now, err := perdure.Now(ctx)
				if err != nil {
					return "", err
				}
				rng, err := perdure.Random(ctx)
				if err != nil {
					return "", err
				}
				v, odd := perdure.SideEffect(ctx, "counter", next)
				large, err := perdure.SideEffect(ctx, "large", func() ([]byte, error) {
					return make([]byte, 200_000+v), nil
				})
				return fmt.Sprint(now.UnixNano(), rng.Uint64(), rng.Perm(4), v,
					errors.Is(odd, world.ErrOdd),
					odd, len(large)), err
			}
			var out []string
			for i := range 3 {
				s, err := see()
				if err != nil {
					return nil, err
				}
				out = append(out, s)
				s, err = perdure.Step(ctx, "tell", func(ctx context.Context) (string, error) {
					_, err := l.Effect(s, time.Second)(ctx)
					return s, err
				}, perdure.Key(fmt.Sprint(i)))
				if err != nil {
					return nil, err
				}
				if out = append(out, s); i < 2 {
					if err := perdure.Sleep(ctx, time.Minute); err != nil {
						return nil, err
					}
				}
			}
			return out, nil
		})
		return world.Scenario{
			Workflows: []perdure.Definition{wf},
			Begin: func(w *world.World) error {
				_, err := wf.Start(context.Background(), w.Engine, 0, perdure.ID("x"))
				return err
			},
			Over: func(w *world.World) bool {
				return w.Status("x").IsTerminal() || w.Status("x") == journal.Suspended
			},
			Check: func(t *testing.T, w *world.World, crashes int) {
				run, err := wf.Get(context.Background(), w.Engine, "x")
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				out, err := run.Result(ctx)
				if err != nil || len(out) != 6 {
					t.Fatal(out, err)
				}
				for i := 0; i < len(out); i += 2 {
					if out[i] != out[i+1] {
						t.Errorf("the step was told %q and the replay sees %q", out[i+1], out[i])
					}
				}
				w.History("x")
			},
		}
	})
}

// A cart is a payload.
type cart struct {
	Items []string
	Note  string
}

// spec: L-8, R-14, L-3
func TestStateOfARunIsSeenOutside(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, in cart) (cart, error) {
		for i := range 3 {
			c, err := perdure.Payload[cart](ctx)
			if err != nil {
				return in, err
			}
			c.Items = append(c.Items, fmt.Sprint(i))
			err = errors.Join(
				perdure.SetPayload(ctx, c), perdure.Publish(ctx, "round", i),
				perdure.Publish(ctx, "note", c.Note),
				perdure.SetAttribute(ctx, "round", fmt.Sprint(i)),
				perdure.SetAttribute(ctx, fmt.Sprint("done-", i), "yes"))
			if err != nil {
				return in, err
			}
			inStep, err := perdure.Step(ctx, "look", func(ctx context.Context) (cart, error) {
				info, err := perdure.InfoOf(ctx)
				if err != nil || info.Attributes["round"] != fmt.Sprint(i) {
					return cart{}, fmt.Errorf("a step sees %v, %w", info.Attributes, err)
				}
				return perdure.Payload[cart](ctx)
			})
			if err != nil || len(inStep.Items) != i+1 {
				return in, fmt.Errorf("in a step: %v, %w", inStep.Items, err)
			}
			if err := perdure.Sleep(ctx, time.Hour); err != nil {
				return in, err
			}
		}
		if err := perdure.SetAttribute(ctx, "round", ""); err != nil {
			return in, err
		}
		return perdure.Payload[cart](ctx)
	})
	for _, large := range []bool{false, true} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprintf("large=%v/crash=%v", large, crash), func(t *testing.T) {
				world.InBothModes(t, func(t *testing.T, w *world.World) {
					note := "short"
					if large {
						note = strings.Repeat("long ", 30_000)
					}
					begin := cart{Note: note}
					world.Start(w, wf, begin, perdure.ID("x"))
					time.Sleep(time.Minute)
					for i := range 4 {
						if crash {
							w.Crash()
							synctest.Wait()
						}
						checkState(w, min(i, 2), i == 3, note)
						time.Sleep(time.Hour)
					}
					run, err := wf.Get(context.Background(), w.Engine, "x")
					if err != nil {
						t.Fatal(err)
					}
					out, err := run.Result(context.Background())
					if err != nil || !slices.Equal(out.Items, []string{"0", "1", "2"}) ||
						out.Note != note {
						t.Error(out.Items, len(out.Note), err)
					}
					w.History("x")
				}, wf)
			})
		}
	}
}

// checkState checks that the state that is visible outside is the state after a round.
func checkState(w *world.World, round int, ended bool, note string) {
	w.T.Helper()
	d, err := w.Engine.Describe(context.Background(), "x")
	if err != nil || d.Head.Status.IsTerminal() != ended {
		w.T.Fatal(d.Head.Status, err)
	}
	payload := string(d.State.Payload)
	if !strings.HasSuffix(payload, `"Note":"`+note+`"}`) ||
		!strings.Contains(payload, fmt.Sprintf(`%d"],`, round)) {
		w.T.Errorf("round %d: the payload has %d bytes", round, len(payload))
	}
	shown := d.State.Published
	if string(shown["round"].Data) != fmt.Sprint(round) || string(shown["note"].Data) != `"`+note+
		`"` || len(shown) != 2 {
		w.T.Errorf("round %d: it shows round %s and %d bytes", round, shown["round"].Data,
			len(shown["note"].Data))
	}
	for i := range 3 {
		for attributes, want := range map[string]bool{
			fmt.Sprint("done-", i, "=yes"): i <= round,
			fmt.Sprint("round=", i):        i == round && !ended,
		} {
			name, value, _ := strings.Cut(attributes, "=")
			heads, _, err := w.Engine.List(context.Background(),
				perdure.Query{Attributes: map[string]string{name: value}})
			if err != nil || (len(heads) == 1) != want {
				w.T.Errorf("round %d: %d runs have %s, %v", round, len(heads), attributes, err)
			}
		}
		both := map[string]string{"done-0": "yes", "round": fmt.Sprint(i)}
		heads, _, err := w.Engine.List(context.Background(),
			perdure.Query{Attributes: both, Workflow: "w"})
		if err != nil || (len(heads) == 1) != (i == round && !ended) {
			w.T.Errorf("round %d: %d runs have both, %v", round, len(heads), err)
		}
	}
	if _, has := d.State.Attributes["round"]; has == ended {
		w.T.Errorf("round %d: attributes %v", round, d.State.Attributes)
	}
}

// spec: L-3
func TestInfoIsTheSameOnReplay(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) ([]string, error) {
		var seen []string
		see := func() {
			i, err := perdure.InfoOf(ctx)
			seen = append(seen, fmt.Sprint(i.RunID, i.WorkflowID, i.Workflow, i.Status,
				string(i.Payload), i.Headers, i.Attributes, i.Started.UnixNano(), i.Steps, err))
		}
		see()
		err := errors.Join(perdure.SetPayload(ctx, 5), perdure.SetAttribute(ctx, "a", "b"))
		see()
		if _, e := perdure.Step(ctx, "one", world.Work("one", time.Second, nil)); e != nil {
			return nil, e
		}
		see()
		err = errors.Join(err, pattern.SetStatus(ctx, journal.Trying))
		see()
		before := slices.Clone(seen)
		told, e := perdure.SideEffect(ctx, "seen", func() ([]string, error) { return before, nil })
		if e != nil {
			return nil, e
		}
		if err := errors.Join(err, perdure.Sleep(ctx, time.Hour)); err != nil {
			return nil, err
		}
		see()
		for i := range told {
			if told[i] != seen[i] {
				return nil, fmt.Errorf("look %d gave %s, and on replay %s", i, told[i], seen[i])
			}
		}
		if !strings.Contains(seen[0], "RUNNING") || !strings.Contains(seen[4], "TRYING") ||
			strings.Contains(seen[0], "[one]") || !strings.Contains(seen[2], "[one]") {
			return nil, fmt.Errorf("it sees %q", seen)
		}
		return seen, nil
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		run, err := wf.Start(context.Background(), w.Engine, 3, perdure.ID("x"),
			perdure.Headers{"h": "1"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if s := w.Status("x"); s != journal.Trying {
			t.Errorf("outside it is %v", s)
		}
		w.Crash()
		if run, err = wf.Get(context.Background(), w.Engine, run.ID()); err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(context.Background()); err != nil {
			t.Error(err)
		}
	}, wf)
}

// An orderContext is a context type of an application, with methods of its domain.
type orderContext struct {
	context.Context
	order string
}

func (c *orderContext) charge(amount int) (string, error) {
	return perdure.Step(c, "charge", func(ctx context.Context) (string, error) {
		return fmt.Sprint(ctx.Value(tenantKey{}), "/", c.order, "/", amount), nil
	}, perdure.Key(c.order))
}

func (c *orderContext) in(ctx context.Context) *orderContext { return &orderContext{ctx, c.order} }

type tenantKey struct{}

// spec: L-22
func TestApplicationWrapsTheContext(t *testing.T) {
	paid := perdure.NewSignal[int]("paid")
	child := perdure.Define("child", func(ctx context.Context, n int) (int, error) {
		return n, nil
	})
	wf := perdure.Define("w", func(ctx context.Context, _ int) (map[string]string, error) {
		c := &orderContext{context.WithValue(ctx, tenantKey{}, "acme"), "4711"}
		out := map[string]string{}
		put := func(name string, v any, err error) { out[name] = fmt.Sprint(v, " ", err) }
		got, err := c.charge(5)
		put("step", got, err)
		n, err := perdure.Async(c, "async", world.Work("a", time.Second, nil)).Await(c)
		put("async", n, err)
		b := perdure.Go(c, "branch", func(ctx context.Context) (string, error) {
			in := c.in(ctx)
			if err := perdure.Sleep(in, time.Hour); err != nil {
				return "", err
			}
			return in.charge(6)
		})
		got, err = b.Await(c)
		put("branch", got, err)
		scoped, err := perdure.Scope(c, "scope")
		if err != nil {
			return nil, err
		}
		got, err = c.in(scoped).charge(7)
		put("scope", got, err)
		put("sleep", "", perdure.Sleep(c, time.Hour))
		_, err = perdure.Timer(c, "t", time.Minute).Await(c)
		put("timer", "", err)
		n, err = paid.Wait(c)
		put("signal", n, err)
		n, err = child.Child(c, 8).Await(c)
		put("child", n, err)
		_, err = perdure.Now(c)
		put("value", "", err)
		put("payload", "", errors.Join(perdure.SetPayload(c, 1), perdure.Publish(c, "p", 1),
			perdure.SetAttribute(c, "a", "1"), pattern.SetStatus(c, journal.Running)))
		n, err = perdure.Version(c, "v", 2)
		put("version", n, err)
		info, err := perdure.InfoOf(c)
		put("info", info.WorkflowID, err)
		put("record", "", pattern.Record(c, pattern.Fact{Kind: journal.StepSkipped, Name: "x"}))
		i, err := perdure.Any(c, nil, perdure.Async(c, "x", world.Work("x", time.Hour, nil)),
			perdure.Async(c, "y", world.Work("y", time.Second, nil)))
		put("any", i, err)
		short, cancel := context.WithTimeout(c, time.Minute)
		defer cancel()
		_, err = perdure.Step(c.in(short), "long", world.Work("long", time.Hour, nil))
		put("long", errors.Is(err, context.DeadlineExceeded), nil)
		put("plan", "", perdure.Finally(c, "f", func(ctx context.Context) error {
			if ctx.Value(tenantKey{}) != nil {
				return world.ErrOdd
			}
			_, err := c.in(ctx).charge(9)
			return err
		}))
		return out, pattern.End(c, journal.Confirmed, out, nil)
	})
	want := map[string]string{
		"step": "acme/4711/5 <nil>", "async": "7 <nil>", "branch": "acme/4711/6 <nil>",
		"scope": "acme/4711/7 <nil>", "sleep": " <nil>",
		"timer": " <nil>", "signal": "3 <nil>", "child": "8 <nil>", "value": " <nil>",
		"payload": " <nil>", "version": "2 <nil>",
		"info": "x <nil>", "record": " <nil>", "any": "1 <nil>", "long": "true <nil>",
		"plan": " <nil>",
	}
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		run, err := wf.Start(context.Background(), w.Engine, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		if len(w.Seen(observe.TurnLent)) > 0 {
			t.Error("a turn was lent")
		}
		if _, err := paid.Send(context.Background(), w.Engine, "x", 3); err != nil {
			t.Fatal(err)
		}
		out, err := run.Result(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for name := range want {
			if out[name] != want[name] {
				t.Errorf("%s: %q, want %q", name, out[name], want[name])
			}
		}
		if !maps.Equal(out, want) {
			t.Errorf("%v", out)
		}
		for _, n := range w.Seen(observe.CleanupFailed) {
			t.Errorf("%+v", n)
		}
		w.History("x")
	}, wf, child)
}

// spec: P-14, P-6
func TestFactsOfAPatternAreSeen(t *testing.T) {
	kinds := map[journal.Kind]observe.Kind{
		journal.StepSkipped:            observe.StepSkipped,
		journal.CompensationStarted:    observe.CompensationStarted,
		journal.StepCompensated:        observe.StepCompensated,
		journal.StepCompensationFailed: observe.StepCompensationFailed,
		journal.PhaseStarted:           observe.PhaseStarted,
		journal.PhaseCompleted:         observe.PhaseCompleted,
		journal.PhaseFailed:            observe.PhaseFailed,
	}
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		for k := journal.Kind(0); k < 200; k++ {
			f := pattern.Fact{Kind: k, Name: fmt.Sprint("fact-", int(k)), Key: "k", Phase: "try",
				Reason: "why", Attempt: 2, Err: world.ErrOdd}
			err := pattern.Record(ctx, f)
			if _, allowed := kinds[k]; allowed != (err == nil) || !allowed &&
				journal.CodeOf(err) != journal.CodeInvalid {
				return 0, fmt.Errorf("%v: %w", k, err)
			}
		}
		if err := pattern.Record(ctx, pattern.Fact{Kind: journal.StepSkipped,
			Name: "not a name"}); journal.CodeOf(err) != journal.CodeInvalid {
			return 0, fmt.Errorf("a name that cannot be gives %w", err)
		}
		return 0, perdure.Sleep(ctx, time.Hour)
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.Crash() // the code is replayed, and records nothing twice
		if run, err = wf.Get(context.Background(), w.Engine, run.ID()); err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(context.Background()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		entries := w.History(run.ID())
		for kind, notice := range kinds {
			name := fmt.Sprint("fact-", int(kind))
			n := 0
			for _, e := range entries {
				if e.Kind == kind {
					n++
					if d := e.Detail; e.Op.Name != name || e.Op.Key != "k" || d.Phase != "try" ||
						d.Reason != "why" || d.Attempt != 2 || d.Failure.Message != "odd" {
						t.Errorf("%v is recorded as %+v %+v", kind, e, d)
					}
				}
			}
			seen := w.Seen(notice)
			if n != 1 || len(seen) != 1 || !strings.HasPrefix(seen[0].Step, name) ||
				seen[0].Reason != "why" || seen[0].Phase != "try" || seen[0].Attempt != 2 ||
				seen[0].Err != "odd" {
				t.Errorf("%v: %d entries, notices %+v", kind, n, seen)
			}
		}
	}, wf)
}

// spec: B-3
func TestStateThatIsTooLargeIsRefusedAtTheCall(t *testing.T) {
	large := make([]byte, 2000)
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		_, value := perdure.SideEffect(ctx, "v", func() ([]byte, error) { return large, nil })
		child := perdure.Define("child", func(context.Context, []byte) (int, error) {
			return 0, nil
		})
		_, started := child.Child(ctx, large).Await(ctx)
		for what, err := range map[string]error{
			"payload": perdure.SetPayload(ctx, large), "publish": perdure.Publish(ctx, "p", large),
			"value": value, "child": started, "continue": perdure.ContinueAsNew(ctx, large),
			"end": pattern.End(ctx, journal.Confirmed, large, nil),
		} {
			if journal.CodeOf(err) != journal.CodeTooLarge ||
				!strings.Contains(err.Error(), "1000") {
				return 0, fmt.Errorf("%s gives %w", what, err)
			}
		}
		return 7, nil
	})
	synctest.Test(t, func(t *testing.T) {
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
		w.Options.Build, w.Options.MaxPayload = "test", 1000
		w.Begin()
		defer w.End()
		if _, out, err := world.Result(w, wf, 0); out != 7 || err != nil {
			t.Error(out, err)
		}
	})
}

// Every store takes the longest allowed value, and no store gets a longer one.
//
// spec: B-3
func TestAttributeThatIsTooLongIsRefusedAtTheCall(t *testing.T) {
	longest := strings.Repeat("a", 1024)
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		if err := perdure.SetAttribute(ctx, "too-long",
			longest+"a"); journal.CodeOf(err) != journal.CodeTooLarge {
			return 0, fmt.Errorf("it gives %w", err)
		}
		return 7, perdure.SetAttribute(ctx, "longest", longest)
	})
	synctest.Test(t, func(t *testing.T) {
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
		w.Options.Build, w.Options.SpillOver = "test", 100
		w.Begin()
		defer w.End()
		_, err := wf.Start(context.Background(), w.Engine, 0, perdure.Attributes{
			"a": longest + "a",
		})
		world.CodeIs(t, err, journal.CodeTooLarge)
		run, err := wf.Start(context.Background(), w.Engine, 0, perdure.Attributes{
			"begun": longest,
		})
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(context.Background()); out != 7 || err != nil {
			t.Error(out, err)
		}
		for _, name := range []string{"begun", "longest"} {
			runs, _, err := w.Engine.List(context.Background(),
				perdure.Query{Attributes: map[string]string{name: longest}})
			if len(runs) != 1 || err != nil {
				t.Errorf("%d runs found by %s: %v", len(runs), name, err)
			}
		}
	})
}
