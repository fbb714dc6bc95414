package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// fail is a workflow whose step fails in each run.
var fail = perdure.Define("fail", func(ctx context.Context, _ int) (int, error) {
	return perdure.Step(ctx, "work", func(context.Context) (int, error) {
		return 0, errors.New("the disk is full")
	}, perdure.NoRetry)
})

// wait is a workflow that waits for a signal.
var wait = perdure.Define("wait", func(ctx context.Context, _ int) (int, error) {
	return perdure.NewSignal[int]("go").Wait(ctx)
})

// undone is a graph whose step can be undone.
var undone = func() *dag.Graph[int] {
	g := dag.New[int]("undone").Mode(dag.Async)
	dag.Add(g, "reserve", func(context.Context, int) (int, error) { return 7, nil }).
		Undo(func(context.Context, int, int) error { return nil })
	return g
}()

// parent is a workflow that fails with its child.
var parent = perdure.Define("parent", func(ctx context.Context, _ int) (int, error) {
	return fail.Child(ctx, 0).Await(ctx)
})

// A bench is a world in virtual time whose engine executes batches.
type bench struct {
	*world.World
	t *testing.T
}

func inTime(t *testing.T, test func(t *testing.T, d bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, fail, wait, parent, undone, batch.Workflow())
		test(t, bench{w, t})
		if all := w.Seen(observe.DefinitionAdvised); len(all) > 0 {
			t.Errorf("%+v", all)
		}
		w.End()
	})
}

// begin starts n runs of a workflow, and returns when they have ended or wait.
func (d bench) begin(w *perdure.Workflow[int, int], name string, n int) {
	d.t.Helper()
	for i := range n {
		_, err := w.Start(d.t.Context(), d.Engine, 0, perdure.ID(fmt.Sprintf("%s-%d", name, i)))
		world.NoError(d.t, err)
	}
	synctest.Wait()
}

func (d bench) start(spec batch.Spec) batch.Batch {
	d.t.Helper()
	return world.Must[batch.Batch](d.t)(batch.Start(d.t.Context(), d.Engine, spec))
}

func (d bench) get(id string) batch.Batch {
	d.t.Helper()
	return world.Must[batch.Batch](d.t)(batch.Get(d.t.Context(), d.Engine, id))
}

// head returns the newest run of a workflow ID.
func (d bench) head(id string) journal.Head {
	d.t.Helper()
	return world.Must[[]perdure.Status](d.t)(d.Engine.Statuses(d.t.Context(), id))[0].Head
}

// ended returns a batch when it has ended.
func (d bench) ended(id string) batch.Batch {
	d.t.Helper()
	for {
		synctest.Wait()
		if b := d.get(id); !b.Ended.IsZero() {
			return b
		}
		time.Sleep(time.Second)
	}
}

// chains returns the number of runs of each workflow ID that begins so.
func chains(t testing.TB, e *perdure.Engine, begin string) map[string]int {
	t.Helper()
	out := map[string]int{}
	q := perdure.Query{Limit: 1000}
	for {
		heads, next, err := e.List(t.Context(), q)
		world.NoError(t, err)
		for _, h := range heads {
			if strings.HasPrefix(h.WorkflowID, begin) {
				out[h.WorkflowID]++
			}
		}
		if q.After = next; next.IsZero() {
			return out
		}
	}
}

func retry(by, reason string) admin.Order {
	return admin.Order{Action: journal.ActionRetry, By: by, Reason: reason}
}

// spec: B-8, R-40
func TestABatchRetriesEachRunThatAFilterSelectsOnce(t *testing.T) {
	inTime(t, func(t *testing.T, d bench) {
		d.begin(fail, "a", 250)
		d.begin(wait, "w", 3)
		spec := batch.Spec{Order: retry("ada", "there is room again"), Filter: "workflow=fail,wait"}
		p := world.Must[batch.Plan](t)(batch.Preview(t.Context(), d.Engine, spec))
		if p.Count != 250 || p.More || len(p.First) != 10 || p.LeftOut != 0 ||
			p.Statuses[journal.Failed] != 250 ||
			!strings.HasPrefix(p.Filter, "status=FAILED,TIMED_OUT workflow=fail,wait created<") {
			t.Errorf("%+v", p)
		}
		b := d.ended(d.start(spec).ID)
		if b.Status != batch.Done || b.Expected != 250 || b.Matched != 250 || b.Done != 250 ||
			b.Failed+b.Skipped != 0 || b.Spec.Filter != p.Filter && !strings.HasPrefix(
			b.Spec.Filter, "status=FAILED") {
			t.Errorf("%+v", b)
		}
		for id, n := range chains(t, d.Engine, "a-") {
			if n != 2 {
				t.Errorf("%s has %d runs, want 2", id, n)
			}
		}
		first := world.Must[[]journal.Entry](t)(d.Engine.History(t.Context(), "a-7", 1, 1))[0]
		if o := journal.OriginOf(first.Detail); o.By != "ada" ||
			o.Reason != "batch "+b.ID+": there is room again" {
			t.Errorf("%+v", o)
		}
		time.Sleep(time.Second) // then a second batch retries those of the first
		p = world.Must[batch.Plan](t)(batch.Preview(t.Context(), d.Engine, spec))
		if p.Count != 250 || p.LeftOut != 250 {
			t.Errorf("%+v", p)
		}
		if b := d.ended(d.start(spec).ID); b.Matched != 250 || b.Done != 250 {
			t.Errorf("%+v", b)
		}
		var old []string // runs that others go on from
		heads, _, err := d.Engine.List(t.Context(), perdure.Query{Workflow: "fail", Limit: 1000})
		world.NoError(t, err)
		for _, h := range heads[len(heads)-250:] {
			old = append(old, string(h.ID))
		}
		b = d.ended(d.start(batch.Spec{Order: retry("ada", ""), Runs: old}).ID)
		if b.Done+b.Failed != 0 || b.Skipped != 250 || len(b.Skips) != 20 {
			t.Errorf("%+v", b)
		}
	})
}

// spec: B-8, R-40
func TestAnItemThatDoesNotGoIsAnErrorOfTheItem(t *testing.T) {
	inTime(t, func(t *testing.T, d bench) {
		d.begin(fail, "a", 3)
		d.begin(wait, "w", 1)
		h := d.head("a-0")
		spec := batch.Spec{Order: retry("ada", ""), Runs: []string{
			"a-0", string(h.ID), "a-0", "nobody", "w-0", "a-1", "nobody", "a-2",
		}}
		p := world.Must[batch.Plan](t)(batch.Preview(t.Context(), d.Engine, spec))
		if p.Count != 4 || !slices.Equal(p.Unknown, []string{"nobody"}) || p.Filter != "" {
			t.Errorf("%+v", p)
		}
		own := d.start(batch.Spec{Order: retry("", ""), Runs: []string{"nobody"}})
		d.ended(own.ID)
		spec.Runs = append(spec.Runs, own.RunID)
		_, err := admin.New(d.Engine).Act(t.Context(), "a-2", retry("bob", "by hand"))
		world.NoError(t, err)
		synctest.Wait()
		spec.Runs = append(spec.Runs, string(world.Must[[]journal.Entry](t)(
			d.Engine.History(t.Context(), "a-2", 1, 1))[0].Detail.Retried))
		b := d.ended(d.start(spec).ID)
		if b.Status != batch.Done || b.Matched != 7 || b.Done != 3 || b.Failed != 2 ||
			b.Skipped != 2 {
			t.Errorf("%+v", b)
		}
		var got []string
		for _, i := range append(b.Errors, b.Skips...) {
			got = append(got, string(i.Code)+": "+i.Error)
		}
		for i, want := range []string{
			"not_found: no run had this ID", "invalid: it is a run of perdure.batch",
			"wrong_state: run ", "wrong_state: run ",
		} {
			if i >= len(got) || !strings.HasPrefix(got[i], want) {
				t.Errorf("items %q, want one that begins with %q", got, want)
			}
		}
	})
}

// spec: B-8, R-40
func TestABatchKeepsToItsRateAndStops(t *testing.T) {
	inTime(t, func(t *testing.T, d bench) {
		d.begin(fail, "a", 120)
		spec := batch.Spec{Order: retry("ada", ""), Filter: "workflow=fail", Rate: 2}
		b := d.start(spec)
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		if b = d.get(b.ID); b.Status != batch.Running || b.Done != 22 {
			t.Errorf("%+v", b)
		}
		world.NoError(t, batch.Stop(t.Context(), d.Engine, b.ID, "bob", "too many"))
		synctest.Wait()
		b = d.get(b.ID)
		if b.Status != batch.Stopped || b.Done != 22 || b.Stop == nil || b.Stop.By != "bob" ||
			b.Stop.Reason != "too many" || b.Ended.IsZero() {
			t.Errorf("%+v", b)
		}
		err := batch.Stop(t.Context(), d.Engine, b.ID, "bob", "")
		if journal.CodeOf(err) != journal.CodeWrongState {
			t.Error(err)
		}
		// the rest goes on as several runs, and so its journal stays short
		began := time.Now()
		b = d.ended(d.start(spec).ID)
		if took := time.Since(began); b.Done != 98+22 || took < 59*time.Second ||
			took > 61*time.Second {
			t.Errorf("after %v %+v", took, b)
		}
		h := world.Must[[]journal.Entry](t)(d.Engine.History(t.Context(), b.RunID, 1, 0))
		if len(h) > 500 || h[0].Detail.Other == "" {
			t.Errorf("%d entries", len(h))
		}
		list, _, err := batch.List(t.Context(), d.Engine, batch.Query{})
		world.NoError(t, err)
		if len(list) != 2 || list[0].ID != b.ID || list[1].Status != batch.Stopped {
			t.Errorf("%+v", list)
		}
	})
}

// spec: B-8, R-40
func TestEachActionIsPossibleInBulk(t *testing.T) {
	inTime(t, func(t *testing.T, d bench) {
		d.begin(wait, "w", 4)
		d.begin(fail, "a", 4)
		_, err := undone.Start(t.Context(), d.Engine, 0, perdure.ID("u-0"))
		world.NoError(t, err)
		bulk := func(o admin.Order, filter string) batch.Batch {
			o.By = "ada"
			return d.ended(d.start(batch.Spec{Order: o, Filter: filter}).ID)
		}
		for _, c := range []struct {
			order  admin.Order
			filter string
			status string // of the runs afterwards
		}{
			{admin.Order{Action: journal.ActionCancel}, "id=w-0", "CANCELLED"},
			{admin.Order{Action: journal.ActionTerminate}, "id=w-1", "CANCELLED"},
			{admin.Order{Action: journal.ActionSkip, Output: []byte("7")}, "id=a-0", "COMPLETED"},
			{admin.Order{Action: journal.ActionFork, Step: "work"}, "id=a-0", "FAILED"},
			{admin.Order{Action: journal.ActionRetry}, "id=a-1", "FAILED"},
			{admin.Order{Action: journal.ActionCompensate}, "id=u-0", "COMPENSATED"},
		} {
			time.Sleep(time.Second)
			b := bulk(c.order, c.filter)
			_, id, _ := strings.Cut(c.filter, "=")
			h := d.head(id)
			if b.Status != batch.Done || b.Done != 1 || h.Status.String() != c.status {
				t.Errorf("%s: %v %+v", c.order.Action, h.Status, b)
			}
		}
	})
}

// A retry of a parent retries its child too. A filter that selects both gets along with that.
//
// spec: B-8
func TestABatchRetriesParentsWithTheirChildren(t *testing.T) {
	inTime(t, func(t *testing.T, d bench) {
		d.begin(parent, "p", 120)
		time.Sleep(time.Second)
		b := d.ended(d.start(batch.Spec{Order: retry("ada", ""), Filter: "status=failed"}).ID)
		if b.Matched != 240 || b.Done != 240 {
			t.Errorf("%+v", b)
		}
		for id, n := range chains(t, d.Engine, "p-") {
			if n != 2 {
				t.Errorf("%s has %d runs, want 2", id, n)
			}
		}
	})
}

// A run that another one goes on from is not for a batch, whatever became of that one. So a preview
// counts the runs that the batch then acts on.
//
// spec: B-8, R-40
func TestABatchLeavesOutRunsThatAnotherOneGoesOnFrom(t *testing.T) {
	inTime(t, func(t *testing.T, d bench) {
		d.begin(fail, "a", 120)
		spec := batch.Spec{Order: retry("ada", ""), Filter: "workflow=fail status=failed"}
		for range 3 {
			p := world.Must[batch.Plan](t)(batch.Preview(t.Context(), d.Engine, spec))
			b := d.ended(d.start(spec).ID)
			if p.Count != 120 || b.Expected != 120 || b.Matched != 120 || b.Done != 120 {
				t.Errorf("%d in the preview, %+v", p.Count, b)
			}
			time.Sleep(time.Second)
		}
	})
}

// A batch that is stopped before an engine has taken it up acts on no run.
//
// spec: B-8
func TestABatchThatNoEngineHasIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, fail)
		bench{w, t}.begin(fail, "a", 3)
		c := world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), w.DB))
		b := world.Must[batch.Batch](t)(batch.Start(t.Context(), c, batch.Spec{
			Order: retry("ada", ""), Filter: "workflow=fail",
		}))
		if b.Status != batch.Pending || b.Expected != 3 {
			t.Errorf("%+v", b)
		}
		_, err := batch.Start(t.Context(), w.Engine, batch.Spec{
			Order: retry("ada", ""), Filter: "workflow=fail",
		})
		if journal.CodeOf(err) != journal.CodeUnregistered {
			t.Error(err)
		}
		world.NoError(t, batch.Stop(t.Context(), c, b.ID, "bob", "not now"))
		if b, err = batch.Get(t.Context(), c, b.ID); err != nil || b.Status != batch.Stopping ||
			b.Stop.Reason != "not now" {
			t.Errorf("%v %+v", err, b)
		}
		w.End()
		w.Workflows = append(w.Workflows, batch.Workflow())
		w.Begin()
		d := bench{w, t}
		if b := d.ended(b.ID); b.Status != batch.Stopped || b.Matched != 0 {
			t.Errorf("%+v", b)
		}
		w.End()
	})
}

// A deaf store does not answer some of the questions for the first entry of a run.
type deaf struct {
	store.Store
	left *atomic.Int32
}

func (d deaf) Load(ctx context.Context, n journal.Number, r store.Range) ([]journal.Entry, error) {
	if r.Limit == 1 && d.left.Add(-1) >= 0 {
		return nil, errors.New("the disk does not answer")
	}
	return d.Store.Load(ctx, n, r)
}

// spec: B-8
func TestABatchWaitsForAStoreThatDoesNotAnswer(t *testing.T) {
	inTime(t, func(t *testing.T, d bench) {
		d.begin(fail, "a", 30)
		left := &atomic.Int32{}
		d.End()
		d.Wrap = func(s store.Store) store.Store { return deaf{s, left} }
		d.Begin()
		left.Store(50)
		b := d.start(batch.Spec{Order: retry("ada", ""), Filter: "workflow=fail"})
		if b = d.ended(b.ID); b.Done != 30 || b.Matched != 30 {
			t.Errorf("%+v", b)
		}
		if left.Load() >= 0 {
			t.Error("no question had no answer")
		}
		for id, n := range chains(t, d.Engine, "a-") {
			if n != 2 {
				t.Errorf("%s has %d runs, want 2", id, n)
			}
		}
	})
}

// No run has one ID of a list when the batch begins. The run that gets it while the batch goes on
// is left alone.
//
// spec: B-8, R-40
func TestARunThatGetsAnIDOfTheListLaterIsLeftAlone(t *testing.T) {
	inTime(t, func(t *testing.T, d bench) {
		d.begin(fail, "a", 1)
		d.begin(fail, "b", 1)
		b := d.start(batch.Spec{
			Order: retry("ada", ""), Runs: []string{"a-0", "b-0", "late-0", "late-1"}, Rate: 1,
		})
		d.begin(fail, "late", 2)
		b = d.ended(b.ID)
		if b.Expected != 4 || b.Matched != 4 || b.Done != 2 || b.Failed != 2 ||
			len(b.Errors) != 2 || b.Errors[0].RunID != "late-0" ||
			b.Errors[0].Code != journal.CodeNotFound {
			t.Errorf("%+v", b)
		}
		if n := chains(t, d.Engine, "late-"); n["late-0"] != 1 || n["late-1"] != 1 {
			t.Errorf("runs %v", n)
		}
		b = d.ended(d.start(batch.Spec{Order: retry("", ""), Runs: []string{"nobody"}}).ID)
		if b.Status != batch.Done || b.Failed != 1 || len(b.Errors) != 1 {
			t.Errorf("%+v", b)
		}
	})
}
