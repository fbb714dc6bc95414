package patterns

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store/memory"
)

// An errTooOften is the error of an issue that a pattern adds itself.
var errTooOften = errors.New("too often")

// advised returns an engine, and a function that returns the notices about definitions so far.
func advised(t *testing.T, o perdure.Options) (*perdure.Engine, func() []observe.Notice) {
	t.Helper()
	var mu sync.Mutex
	var told []observe.Notice
	o.Build = "test"
	o.Observers = []observe.Observer{{Kinds: []observe.Kind{observe.DefinitionAdvised},
		See: func(n observe.Notice) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, n)
		}}}
	eng, err := perdure.New(memory.New(), o)
	if err != nil {
		t.Fatal(err)
	}
	return eng, func() []observe.Notice {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(told)
	}
}

func declaring(about definition.Outline, issues ...definition.Issue) pattern.Declared {
	return func() (definition.Outline, []definition.Issue) { return about, issues }
}

// spec: F-8, F-13
func TestErrorsRefuseADefinitionWarningsAndRemarksAreTold(t *testing.T) {
	failed := definition.Issue{
		Severity: definition.SeverityError, Where: "charge.retry", Message: "three\nbelow nothing",
		Err: errTooOften,
	}
	plain := definition.Issue{Where: "charge", Message: "no severity"}
	warned := definition.Issue{
		Severity: definition.SeverityWarning, Where: "ship", Message: "no compensation",
	}
	remark := definition.Issue{Severity: definition.SeverityInfo, Message: "it is large"}
	round := graph(definition.Node{Name: "a", After: []string{"b"}},
		definition.Node{Name: "b", After: []string{"a"}})
	says := func(i ...definition.Issue) perdure.WorkflowOption {
		return declaring(definition.Outline{}, i...)
	}
	for _, c := range []struct {
		name   string
		strict bool
		opts   []perdure.WorkflowOption
		issues []string // the issues that refuse it
		is     []error
		told   []string
	}{
		{name: "nothing", opts: []perdure.WorkflowOption{says()}},
		{name: "nothing strictly", strict: true, opts: []perdure.WorkflowOption{says()}},
		{
			name:   "a remark",
			strict: true,
			opts:   []perdure.WorkflowOption{says(remark)},
			told:   []string{"INFO: it is large"},
		},
		{name: "a warning", opts: []perdure.WorkflowOption{says(warned, remark)}, told: []string{
			"WARNING: ship: no compensation", "INFO: it is large",
		}},
		{name: "a warning strictly", strict: true, opts: []perdure.WorkflowOption{
			says(remark, warned),
		}, issues: []string{"INFO: it is large", "WARNING: ship: no compensation"}},
		{name: "an error", opts: []perdure.WorkflowOption{says(warned, failed)}, issues: []string{
			"WARNING: ship: no compensation", `ERROR: charge.retry: three\nbelow nothing`,
		}, is: []error{errTooOften}},
		{name: "without severity", opts: []perdure.WorkflowOption{says(plain)}, issues: []string{
			"ERROR: charge: no severity",
		}},
		{
			name: "the graph and the contract of a declaration",
			is:   []error{errTooOften, &perdure.Error{Code: journal.CodeTopology}},
			opts: []perdure.WorkflowOption{
				declaring(definition.Outline{Graph: round.Graph, Input: json.RawMessage("{")},
					failed),
			},
			issues: []string{
				`ERROR: charge.retry: three\nbelow nothing`, "ERROR: input: the contract of the " +
					"input is not JSON", "ERROR: a: a circle: a → b → a",
			},
		},
		{
			name: "the graph beside a declaration", is: []error{
				&perdure.Error{Code: journal.CodeTopology},
			},
			opts: []perdure.WorkflowOption{says(remark), round}, issues: []string{
				"INFO: it is large", "ERROR: a: a circle: a → b → a",
			},
		},
	} {
		eng, told := advised(t, perdure.Options{FailOnWarning: c.strict})
		err := eng.Register(perdure.Define("w", world.Nothing, append(c.opts, pattern.Saga)...))
		var refused *definition.Error
		if is := errors.As(err, &refused); is != (c.issues != nil) || !is && err != nil {
			t.Errorf("%s: registered with %v", c.name, err)
		}
		if refused != nil {
			if want := "perdure: the definition of w has issues:\n\t" +
				strings.Join(c.issues, "\n\t"); err.Error() != want {
				t.Errorf("%s: the error is\n%v\nwant\n%s", c.name, err, want)
			}
			if refused.Workflow != "w" || len(refused.Issues) != len(c.issues) {
				t.Errorf("%s: the error is %+v", c.name, refused)
			}
			world.CodeIs(t, err, journal.CodeInvalid)
			if journal.CodeOf(err) != journal.CodeInvalid {
				t.Errorf("%s: the code is %v", c.name, journal.CodeOf(err))
			}
		}
		for _, is := range []error{errTooOften, &perdure.Error{Code: journal.CodeTopology}} {
			if want := slices.ContainsFunc(c.is, func(x error) bool {
				return reflect.DeepEqual(x, is)
			}); errors.Is(err, is) != want {
				t.Errorf("%s: that it is %v: %v", c.name, is, !want)
			}
		}
		var reasons []string
		for _, n := range told() {
			reasons = append(reasons, n.Reason)
			if n.Kind != observe.DefinitionAdvised || n.Workflow != "w" || n.Pattern != "SAGA" ||
				n.At.IsZero() {
				t.Errorf("%s: told %+v", c.name, n)
			}
		}
		if !slices.Equal(reasons, c.told) {
			t.Errorf("%s: told %q, want %q", c.name, reasons, c.told)
		}
		if known := eng.Workflows(); (len(known) == 1) != (c.issues == nil) {
			t.Errorf("%s: the engine knows %v", c.name, known)
		}
	}
}

// A declaration is checked when it is registered for the first time, and not again for any later
// registration. There is no notice for a definition whose name is taken.
//
// spec: F-8
func TestADeclarationIsLookedAtOnce(t *testing.T) {
	calls := 0
	w := perdure.Define("w", world.Nothing,
		pattern.Declared(func() (definition.Outline, []definition.Issue) {
			calls++
			return definition.Outline{}, []definition.Issue{
				{Severity: definition.SeverityInfo, Message: "seen"},
			}
		}))
	if calls != 0 {
		t.Errorf("it was looked at %d times before it was registered", calls)
	}
	one, told := advised(t, perdure.Options{})
	two, also := advised(t, perdure.Options{})
	var all sync.WaitGroup
	for _, eng := range []*perdure.Engine{one, two, two, two} {
		all.Go(func() { _ = eng.Register(w) }) // of three with one engine, two return an error
	}
	all.Wait()
	world.CodeIs(t, one.Register(w), journal.CodeDuplicate)
	if calls != 1 || len(told()) != 1 || len(also()) != 1 || len(two.Workflows()) != 1 {
		t.Errorf("it was looked at %d times, and told %d and %d times", calls, len(told()),
			len(also()))
	}
}

// The fields of a declaration's outline take precedence over the fields of an About, in any order
// of the options.
func TestADeclarationGoesBeforeWhatIsSaidBesideIt(t *testing.T) {
	beside := definition.Outline{
		Version: "1", Description: "d", Trigger: "t", IDField: "f", Input: json.RawMessage(`1`),
		Graph: &definition.Graph{Nodes: []definition.Node{{Name: "beside"}}},
	}
	whole := definition.Outline{
		Version: "2", Description: "e", Trigger: "u", IDField: "g", Input: json.RawMessage(`2`),
		Graph: &definition.Graph{Nodes: []definition.Node{{Name: "declared"}}},
	}
	about := func(o definition.Outline) perdure.About {
		return perdure.About{
			Version: o.Version, Description: o.Description, Trigger: o.Trigger, IDField: o.IDField,
			Input: o.Input, Graph: o.Graph,
		}
	}
	for _, c := range []struct{ declared, beside, want definition.Outline }{
		{whole, beside, whole},
		{definition.Outline{}, beside, beside},
		{whole, definition.Outline{}, whole},
		{
			definition.Outline{Graph: whole.Graph},
			definition.Outline{Version: "1", Description: "d"},
			definition.Outline{Version: "1", Description: "d", Graph: whole.Graph},
		},
	} {
		for _, opts := range [][]perdure.WorkflowOption{
			{about(c.beside), declaring(c.declared)}, {declaring(c.declared), about(c.beside)},
		} {
			eng, _ := advised(t, perdure.Options{})
			if err := eng.Register(perdure.Define("w", world.Nothing, opts...)); err != nil {
				t.Fatal(err)
			}
			if got := eng.Workflows()[0].Outline; !reflect.DeepEqual(got, c.want) {
				t.Errorf("it is %+v, want %+v", got, c.want)
			}
		}
	}
}

// spec: F-1
func TestRunsHaveThePatternOfTheirWorkflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saga := perdure.Define("saga", world.Nothing, pattern.Saga)
		tcc := perdure.Define("tcc", world.Nothing, pattern.TCC)
		machine := perdure.Define("machine", world.Nothing, pattern.Machine)
		code := perdure.Define("code", world.Nothing, pattern.Workflow)
		knock := perdure.NewSignal[int]("knock")
		w := world.With(t, perdure.Options{}, saga, tcc, machine, code,
			perdure.Define("parent", func(
				ctx context.Context, _ int,
			) (int, error) {
				return saga.Child(ctx, 0, perdure.ID("child")).Await(ctx)
			}))
		defer w.End()
		ctx := t.Context()
		client, err := perdure.NewClient(ctx, w.Store)
		if err != nil {
			t.Fatal(err)
		}
		begin := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		begin(saga.Start(ctx, w.Engine, 0, perdure.ID("typed")))
		begin(w.Engine.Start(ctx, "tcc", []byte("0"), perdure.ID("named")))
		begin(tcc.Start(ctx, client, 0, perdure.ID("client")))
		begin(perdure.SendWithStart(ctx, w.Engine, knock, 1, tcc, 0, perdure.ID("signal")))
		begin(w.Engine.Start(ctx, "parent", []byte("0"), perdure.ID("parent")))
		begin(code.Start(ctx, w.Engine, 0, perdure.ID("code")))
		begin(w.Engine.Start(ctx, "machine", []byte("0"), perdure.ID("machine")))
		synctest.Wait() // now the parent has a child
		for id, want := range map[string]journal.Pattern{
			"typed": journal.PatternSaga, "named": journal.PatternTCC, "client": journal.PatternTCC,
			"signal": journal.PatternTCC,
			"parent": journal.PatternWorkflow, "child": journal.PatternSaga,
			"code": journal.PatternWorkflow, "machine": journal.PatternMachine,
		} {
			run, err := w.Engine.Get(ctx, id)
			if err == nil {
				_, err = run.Result(ctx)
			}
			if d := w.Describe(id); err != nil || d.Head.Pattern != want ||
				d.State.Pattern != want {
				t.Errorf("run %s is a %v, and %v, want %v; %v", id, d.Head.Pattern, d.State.Pattern,
					want, err)
			}
		}
		for _, n := range w.Seen(observe.RunEnded) {
			if (n.Pattern == "SAGA") != (n.Workflow == "saga") ||
				(n.Pattern == "TCC") != (n.Workflow == "tcc") {
				t.Errorf("told %+v", n)
			}
		}
	})
}

// A client that does not know a workflow starts a run of it. The run has the pattern and the steps
// of the workflow also if an operator suspends it before its code is called.
//
// spec: F-1
func TestARunThatIsSuspendedBeforeItBeginsHasItsPattern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outline := definition.Outline{Graph: &definition.Graph{
			Nodes: []definition.Node{{Name: "a"}},
		}}
		saga := perdure.Define("saga", world.Nothing, pattern.Saga, pattern.Declared(func() (
			definition.Outline, []definition.Issue,
		) {
			return outline, nil
		}))
		w := world.With(t, perdure.Options{}, saga)
		defer w.End()
		by := admin.Note{By: "ann"}
		world.NoError(t, admin.New(w.Engine).PauseWorkflow(t.Context(), "saga", by))
		client := world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), w.Store))
		_, err := client.Start(t.Context(), "saga", []byte("0"), perdure.ID("a"))
		world.NoError(t, err)
		world.NoError(t, w.Engine.Suspend(t.Context(), "a", "wait"))
		world.NoError(t, admin.New(w.Engine).ResumeWorkflow(t.Context(), "saga", by))
		world.NoError(t, w.Engine.Resume(t.Context(), "a"))
		time.Sleep(time.Minute)
		d := w.Describe("a")
		if h := d.Head; h.Pattern != journal.PatternSaga || h.Status != journal.Completed ||
			len(d.State.Layers) != 1 {
			t.Errorf("the run is a %v, and %v; steps %v", h.Pattern, h.Status, d.State.Layers)
		}
	})
}

func TestWhatIsNoDefinitionIsRefused(t *testing.T) {
	for says, w := range map[string]perdure.Definition{
		"there is no pattern Pattern(9)": perdure.Define("w", world.Nothing, pattern.Kind(9)),
		"a declaration needs a function": perdure.Define("w", world.Nothing, pattern.Declared(nil)),
		"made by Define":                 new(perdure.Workflow[int, int]),
	} {
		eng, _ := advised(t, perdure.Options{})
		err := eng.Register(w)
		world.CodeIs(t, err, journal.CodeInvalid)
		if err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
}

// Every pattern checks the timeout and the policies of a whole workflow.
//
// spec: F-8
func TestOddTimesOfAWorkflowAreWarnings(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct {
		opt  perdure.WorkflowOption
		told []string
	}{
		{perdure.Timeout(day), nil},
		{perdure.Timeout(30 * day), nil},
		{perdure.Retry{Cap: day}, nil},
		{
			perdure.Retry{First: day + 1, Cap: 1},
			[]string{"WARNING: retry: a delay of 24h0m0.000000001s"},
		},
		{perdure.Retry{Attempts: 3, First: 12 * time.Hour, Cap: day, Factor: 1}, nil},
		{perdure.Retry{Attempts: 4, First: 12 * time.Hour, Cap: day, Factor: 1}, []string{
			"WARNING: retry: delays of 36h0m0s together",
		}},
		{perdure.Retry{Attempts: 4, First: 4 * time.Hour, Cap: 11 * time.Hour}, nil}, // 4, 8, 11 h
		{perdure.Retry{Attempts: 5, First: 4 * time.Hour, Cap: 11 * time.Hour}, []string{
			"WARNING: retry: delays of 34h0m0s together",
		}},
		{
			perdure.Retry{Attempts: math.MaxInt, First: 1, Cap: 1},
			[]string{"WARNING: retry: delays of 2562047h47m16s together"},
		},
		{perdure.Retry{Attempts: math.MaxInt, First: 1, Factor: 1 + 1e-15}, []string{
			"WARNING: retry: delays of 2562047h47m16s together",
		}},
		{perdure.Retry{Attempts: 2, Cap: day, Factor: math.MaxFloat64}, nil},
		{
			perdure.Replays{Attempts: 300},
			[]string{"WARNING: replays: delays of 24h18m31s together"},
		},
	} {
		eng, told := advised(t, perdure.Options{})
		if err := eng.Register(perdure.Define("w", world.Nothing, c.opt),
			perdure.Define("declared", world.Nothing, c.opt,
				declaring(definition.Outline{}))); err != nil {
			t.Errorf("%#v: %v", c.opt, err)
		}
		for _, name := range []string{"w", "declared"} {
			var reasons []string
			for _, n := range told() {
				if n.Workflow == name {
					reasons = append(reasons, n.Reason)
				}
			}
			if !slices.Equal(reasons, c.told) {
				t.Errorf("%s with %#v: told %q, want %q", name, c.opt, reasons, c.told)
			}
		}
	}
}

// The last option takes effect, and only it is checked for unusual values. A declaration with an
// invalid policy is refused. The error has the issue of the policy and the declaration's own
// issues.
//
// spec: F-8
func TestWhatAnOptionReplacesIsNotOdd(t *testing.T) {
	eng, told := advised(t, perdure.Options{})
	if err := eng.Register(perdure.Define("w", world.Nothing, perdure.Timeout(-1),
		perdure.Timeout(1),
		perdure.Retry{Factor: 0.5}, perdure.NoRetry)); err != nil || len(told()) != 0 {
		t.Errorf("%v, and told %v", err, told())
	}
	err := eng.Register(perdure.Define("x", world.Nothing, perdure.Timeout(-1),
		perdure.Retry{
			Factor: 0.5,
		}, declaring(definition.Outline{}, definition.Issue{Message: "more"})))
	var refused *definition.Error
	if !errors.As(err, &refused) || len(refused.Issues) != 3 {
		t.Errorf("registered: %v", err)
	}
	world.CodeIs(t, err, journal.CodeInvalid)
}

// A policy that a step refuses is refused as the policy of a workflow too, and so is a negative
// timeout. The message has the place of the mistake once.
//
// spec: F-8
func TestNegativeTimesAndAttemptsOfAWorkflowAreRefused(t *testing.T) {
	for _, c := range []struct {
		opt  perdure.WorkflowOption
		want string
	}{
		{
			perdure.Timeout(-1),
			"ERROR: timeout: a timeout of -1ns is not valid " +
				"(allowed are 0, which means no limit, and more)",
		},
		{perdure.Retry{Attempts: -1}, "ERROR: retry: Attempts -1 is not valid: at least 1"},
		{perdure.Retry{First: -1}, "ERROR: retry: First -1ns is not valid: at least 0"},
		{perdure.Retry{Cap: -2}, "ERROR: retry: Cap -2ns is not valid: at least 0"},
		{perdure.Retry{Jitter: 5}, "ERROR: retry: Jitter 5 is not valid: allowed are 0 to 1"},
		{perdure.Replays{Attempts: -1}, "ERROR: replays: Attempts -1 is not valid: at least 1"},
		{perdure.Replays{First: -1}, "ERROR: replays: First -1ns is not valid: at least 0"},
	} {
		for _, def := range []perdure.Definition{
			perdure.Define("w", world.Nothing, c.opt),
			perdure.Define("w", world.Nothing, c.opt, declaring(definition.Outline{})),
		} {
			eng, _ := advised(t, perdure.Options{})
			world.CodeIs(t, eng.Register(def), journal.CodeInvalid)
			issues := perdure.Check(def)
			if len(issues) != 1 || issues[0].String() != c.want {
				t.Errorf("%#v: %q, want %q", c.opt, issues, c.want)
			} else {
				world.CodeIs(t, issues[0].Err, journal.CodeInvalid)
			}
		}
	}
}

// A definition is checked without an engine, with the same issues as Register returns, and can be
// registered after that.
//
// spec: F-8
func TestADefinitionIsCheckedWithoutRegistering(t *testing.T) {
	code := perdure.Define("code", func(context.Context, int) (int, error) { return 0, nil },
		perdure.Retry{First: 25 * time.Hour, Cap: 25 * time.Hour})
	bad := perdure.Define("", func(context.Context, int) (int, error) { return 0, nil })
	issues := perdure.Check(code)
	if len(issues) != 1 || issues[0].Severity != definition.SeverityWarning ||
		issues[0].Where != "retry" {
		t.Errorf("of code: %v", issues)
	}
	for _, d := range []perdure.Definition{nil, bad} {
		if issues := perdure.Check(d); len(issues) != 1 ||
			issues[0].Severity != definition.SeverityError {
			t.Errorf("of %v: %v", d, issues)
		}
	}
	eng, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = eng.Register(code)
	}
	if err != nil {
		t.Error(err)
	}
}
