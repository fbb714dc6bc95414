package dag_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tcc"
)

// A trio has a code workflow and a workflow of each pattern. The one step of each fails while err
// is set.
type trio struct {
	code  *perdure.Workflow[int, int]
	graph *dag.Graph[int]
	saga  *saga.Saga[int]
	tcc   *tcc.TCC[int]
	mu    sync.Mutex
	did   int
	err   error
	told  []perdure.Info
}

func newTrio() *trio {
	o := &trio{}
	does := func(ctx context.Context, _ none) (int, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.did++
		info, err := perdure.InfoOf(ctx)
		if o.told = append(o.told, info); o.err != nil {
			err = perdure.Permanent(o.err)
		}
		return 1, err
	}
	o.code = perdure.Define("code", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "step", func(ctx context.Context) (int, error) {
			return does(ctx, none{})
		})
	}, deadletter.Automatic(true))
	o.graph, o.saga, o.tcc = dag.New[int]("graph"), saga.New[int]("saga"), tcc.New[int]("tcc")
	dag.Add(o.graph, "step", does)
	saga.Add(o.saga, "step", does)
	tcc.Add(o.tcc, "step", func(context.Context, none) (int, error) { return 1, nil }).
		Confirm(func(ctx context.Context, in none, _ int) error {
			_, err := does(ctx, in)
			return err
		}).
		Cancel(func(context.Context, none, int) error { return o.err })
	return o
}

func (o *trio) all() []perdure.Definition {
	return []perdure.Definition{o.code, o.graph, o.saga, o.tcc}
}

// Only graphs have a dry run. A dry run of any other workflow is not started, in any way, and
// neither is a dry run of a workflow that the client does not know.
//
// spec: F-27
func TestADryRunOfAnythingButAGraphIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTrio()
		db := memory.New()
		eng, end := running(t, db, nil, o.all()...)
		defer end()
		unaware, err := perdure.NewClient(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		friend, err := perdure.NewClient(t.Context(), db, o.all()...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, x := t.Context(), perdure.ID("x")
		go1 := perdure.NewSignal[int]("go")
		byType := func(c perdure.Caller) map[string]error {
			_, code := o.code.Start(ctx, c, 1, pattern.DryRun)
			_, ofSaga := o.saga.Start(ctx, c, 1, pattern.DryRun)
			_, ofTCC := o.tcc.Start(ctx, c, 1, pattern.DryRun)
			_, signal := perdure.SendWithStart(ctx, c, go1, 1, o.saga.Workflow, 1, x,
				pattern.DryRun)
			return map[string]error{"code": code, "saga": ofSaga, "tcc": ofTCC, "signal": signal}
		}
		for who, c := range map[string]*perdure.Client{
			"engine":  eng.Client,
			"unaware": unaware,
			"friend":  friend,
		} {
			for what, err := range byType(c) {
				if journal.CodeOf(err) != journal.CodeInvalid {
					t.Errorf("%s, %s by type: %v", who, what, err)
				}
			}
			for _, name := range []string{"code", "saga", "tcc"} {
				if _, err := c.Start(ctx, name, []byte("1"),
					pattern.DryRun); journal.CodeOf(err) != journal.CodeInvalid {
					t.Errorf("%s, %s by name: %v", who, name, err)
				}
			}
			_, err := c.Start(ctx, "graph", []byte("1"), pattern.DryRun, pattern.ModeSync)
			if known := c != unaware; known != (err == nil) {
				t.Errorf("%s, a graph by name: %v", who, err)
			}
		}
		time.Sleep(time.Hour)
		if heads, _, err := eng.List(ctx, perdure.Query{}); err != nil || len(heads) != 2 ||
			o.did != 0 {
			t.Errorf("there are %v, %v, and steps were executed %d times", heads, err, o.did)
		}
	})
}

// A run that was started by a client which does not know its workflow has the pattern of the
// workflow, in every place that shows the pattern.
//
// spec: F-3, P-4
func TestARunThatAClientStartsHasThePatternOfItsWorkflow(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := newTrio()
			if fails {
				o.err = errDown
			}
			db := memory.New()
			var mu sync.Mutex
			var notices []observe.Notice
			watch := func(n observe.Notice) {
				mu.Lock()
				defer mu.Unlock()
				notices = append(notices, n)
			}
			unaware, err := perdure.NewClient(t.Context(), db)
			if err != nil {
				t.Fatal(err)
			}
			names := []string{"code", "graph", "saga", "tcc"}
			for _, name := range names {
				if _, err := unaware.Start(t.Context(), name, []byte("1"),
					perdure.ID(name)); err != nil {
					t.Fatal(err)
				}
			}
			eng, end := running(t, db, watch, o.all()...)
			time.Sleep(time.Hour)
			letters, _, err := admin.New(eng).DeadLetters(t.Context(), admin.DeadLetterQuery{})
			if err != nil || fails != (len(letters) == len(names)) {
				t.Errorf("the letters are %+v, %v", letters, err)
			}
			want := map[string]journal.Pattern{
				"saga": journal.PatternSaga,
				"tcc":  journal.PatternTCC,
			}
			for _, l := range letters {
				if l.Pattern != want[l.Workflow] {
					t.Errorf("the letter of %s says %v", l.Workflow, l.Pattern)
				}
			}
			for _, name := range names {
				d, err := unaware.Describe(t.Context(), name)
				r, failed := unaware.Report(t.Context(), name)
				if err != nil || failed != nil || d.Head.Pattern != want[name] ||
					d.State.Pattern != want[name] || r.Pattern != want[name] {
					t.Errorf("%s is %v, %v and %v, %v, %v", name, d.Head.Pattern, d.State.Pattern,
						r.Pattern, err, failed)
				}
			}
			for _, i := range o.told {
				if i.Pattern != want[i.Workflow] {
					t.Errorf("its code learns that %s is %v", i.Workflow, i.Pattern)
				}
			}
			end()
			for _, n := range notices {
				if slices.Contains(names, n.Workflow) && n.Pattern != want[n.Workflow].String() {
					t.Errorf("observers are told %v of %s with pattern %s", n.Kind, n.Workflow,
						n.Pattern)
				}
			}
		})
	}
}

// running runs an engine until end is called.
func running(t *testing.T, db *memory.Store, watch observe.Func,
	workflows ...perdure.Definition) (*perdure.Engine, func()) {
	t.Helper()
	o := perdure.Options{Build: "test"}
	if watch != nil {
		o.Observers = append(o.Observers, observe.Observer{See: watch})
	}
	eng, err := perdure.New(db, o)
	if err == nil {
		err = eng.Register(workflows...)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("the engine: %w", err))
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	return eng, func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
