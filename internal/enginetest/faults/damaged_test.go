package faults

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tcc"
)

// damage removes an entry of the runs of a workflow ID.
const damage = `delete from perdure_entries
	where seq = ? and run = (select number from perdure_heads where workflow_id = ?)`

// naps does two steps, sleeps for an hour and does a third.
func naps(late *atomic.Int32) *perdure.Workflow[int, int] {
	return perdure.Define("naps", func(ctx context.Context, _ int) (int, error) {
		for _, name := range []string{"a", "b"} {
			if err := world.PlainStep(ctx, name); err != nil {
				return 0, err
			}
		}
		if err := perdure.Sleep(ctx, time.Hour); err != nil {
			return 0, err
		}
		return perdure.Step(ctx, "late", func(context.Context) (int, error) {
			return int(late.Add(1)), nil
		})
	})
}

// A run is not executed past a hole in its journal. Its known part is readable still, and it can be
// cancelled.
//
// spec: B-4
func TestARunWithAHoleInItsJournalIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Int32
		def := naps(&late)
		w := world.NewShop(t, perdure.Options{IdleTimeout: -1}, def)
		ctx := t.Context()
		run := world.Must[*perdure.Run[int]](t)(def.Start(ctx, w.Engine, 0))
		synctest.Wait()
		world.Must[sql.Result](t)(w.DB.Exec("delete from perdure_entries where seq = 2"))
		d, err := w.Engine.Describe(ctx, run.ID())
		world.CodeIs(t, err, journal.CodeCorrupt)
		if !strings.Contains(err.Error(), "entry 2 ") || !strings.Contains(d.Why, "damaged") {
			t.Errorf("of one that is unloaded it says %v, and %q", err, d.Why)
		}
		time.Sleep(2 * time.Hour)
		d, err = w.Engine.Describe(ctx, run.ID())
		world.CodeIs(t, err, journal.CodeCorrupt)
		if d.Head.Status != journal.Suspended || !strings.Contains(d.Why, "entry 2 ") ||
			d.State.Seq != 1 || late.Load() != 0 {
			t.Errorf("%v: %q, %d entries are read, the late step was done %d times", d.Head.Status,
				d.Why, d.State.Seq, late.Load())
		}
		report, err := w.Engine.Report(ctx, run.ID())
		world.CodeIs(t, err, journal.CodeCorrupt)
		if report.Name != "naps" || report.Status != journal.Suspended || report.Started.IsZero() {
			t.Errorf("the report is %+v", report)
		}
		parked, _, err := admin.New(w.Engine).Parked(ctx, journal.Cursor{}, 0)
		if err != nil || len(parked) != 1 || !strings.Contains(parked[0].Why, "entry 2 ") {
			t.Errorf("parked are %+v, %v", parked, err)
		}
		world.Must[admin.Versions](t)(admin.New(w.Engine).Versions(ctx, ""))
		world.Must[[]admin.Stale](t)(admin.New(w.Engine).Stale(ctx, time.Minute))
		if err := w.Engine.Cancel(ctx, run.ID(), "lost"); err != nil {
			t.Fatal(err)
		}
		if st := world.Must[[]perdure.Status](t)(w.Engine.Statuses(ctx,
			run.ID())); st[0].Head.Status != journal.Cancelled {
			t.Errorf("cancelled, it is %v", st[0].Head.Status)
		}
	})
}

// A run whose journal is damaged is cancelled from another process, whatever it is parked for.
//
// spec: B-4, L-16
func TestADamagedRunIsCancelledByAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Int32
		def := naps(&late)
		w := world.NewShop(t, perdure.Options{IdleTimeout: -1}, def)
		ctx := t.Context()
		client := world.Must[*perdure.Client](t)(perdure.NewClient(ctx, w.Store))
		run := world.Must[*perdure.Run[int]](t)(def.Start(ctx, w.Engine, 0))
		synctest.Wait()
		world.Must[sql.Result](t)(w.DB.Exec("delete from perdure_entries where seq = 2"))
		time.Sleep(2 * time.Hour)
		if st := world.Must[[]perdure.Status](t)(client.Statuses(ctx,
			run.ID())); st[0].Head.Status != journal.Suspended {
			t.Fatalf("it is %v", st[0].Head.Status)
		}
		if err := client.Cancel(ctx, run.ID(), "lost"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if st := world.Must[[]perdure.Status](t)(client.Statuses(ctx,
			run.ID())); st[0].Head.Status != journal.Cancelled {
			t.Errorf("cancelled, it is %v", st[0].Head.Status)
		}
	})
}

// A damaged run is terminated by an engine that does not have its workflow, and by one that has it
// while it is paused. A TCC that has decided is left alone, also if the decision cannot be read.
//
// spec: B-4, R-40
func TestADamagedRunIsTerminatedWithoutItsCode(t *testing.T) {
	var late atomic.Int32
	def := naps(&late)
	decided := tcc.New[int]("tcc").Retry(perdure.Retry{Attempts: 100, First: 100 * time.Hour})
	tcc.Add(decided, "a", func(context.Context, int) (int, error) { return 0, nil }).
		Confirm(func(context.Context, int, int) error { return world.ErrOdd }).
		Cancel(func(context.Context, int, int) error { return nil })
	for _, how := range []string{"unknown", "paused"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world.NewShop(t, perdure.Options{IdleTimeout: -1}, def, decided)
				ctx := t.Context()
				world.Must[*perdure.Run[int]](t)(def.Start(ctx, w.Engine, 0, perdure.ID("run")))
				_, err := decided.Start(ctx, w.Engine, 0, perdure.ID("tcc"))
				world.NoError(t, err)
				time.Sleep(time.Minute)
				world.NoError(t, admin.New(w.Engine).PauseWorkflow(ctx, "naps",
					admin.Note{By: "ada"}))
				if how == "unknown" {
					world.Must[sql.Result](t)(w.DB.Exec(
						"update perdure_heads set workflow = 'gone'"))
				}
				world.Must[sql.Result](t)(w.DB.Exec("delete from perdure_entries where seq = 2"))
				status := func(id string) perdure.Status {
					t.Helper()
					all, err := w.Engine.Statuses(ctx, id)
					world.NoError(t, err)
					return all[0]
				}
				order := journal.Entry{
					Kind: journal.CancelAsked, At: time.Now(),
					Op: journal.Op{Name: "perdure:control"}, Detail: &journal.Detail{
						MessageDetail: journal.MessageDetail{Mode: journal.ActionTerminate},
					},
				}
				g := store.Group{Now: time.Now()}
				for _, id := range []string{"run", "tcc"} {
					if how == "unknown" || id == "run" {
						g.Changes = append(g.Changes, store.Change{Posts: []store.Post{{
							Run: status(id).Head.Number, Force: true, Message: order,
						}}})
					}
				}
				world.NoError(t, w.Store.Commit(ctx, &g))
				time.Sleep(time.Minute)
				for id, want := range map[string]journal.Status{
					"run": journal.Cancelled, "tcc": journal.Confirming,
				} {
					if h := status(id).Head; h.Status != want || h.Owner != 0 {
						t.Errorf("%s is %v, and engine %d has it", id, h.Status, h.Owner)
					}
				}
			})
		})
	}
}

// A damaged dead letter is listed as damaged, beside the others, with its readable part, and can be
// deleted.
//
// spec: P-4, B-4
func TestADamagedDeadLetterIsListedAsSuch(t *testing.T) {
	for _, seq := range []int{1, 2} {
		t.Run(fmt.Sprint("entry ", seq), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				def := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
					return perdure.Step(ctx, "s", func(context.Context) (int, error) {
						return 0, world.ErrOdd
					}, perdure.NoRetry)
				}, deadletter.Automatic(true))
				w := world.NewShop(t, perdure.Options{IdleTimeout: -1}, def)
				ctx := t.Context()
				for i := range 3 {
					run := world.Must[*perdure.Run[int]](t)(def.Start(ctx, w.Engine, i,
						perdure.ID(fmt.Sprint("x", i))))
					_, _ = run.Result(ctx)
				}
				synctest.Wait()
				letters, _, err := admin.New(w.Engine).DeadLetters(
					ctx, admin.DeadLetterQuery{WorkflowID: "x1"})
				if err != nil || len(letters) != 1 {
					t.Fatal(letters, err)
				}
				id := letters[0].ID
				world.Must[sql.Result](t)(w.DB.Exec(damage, seq, id))
				letters, _, err = admin.New(w.Engine).DeadLetters(ctx, admin.DeadLetterQuery{})
				if err != nil || len(letters) != 3 {
					t.Fatalf("there are %+v, %v", letters, err)
				}
				for _, l := range letters {
					if (l.Damaged != "") != (l.ID == id) || (l.WorkflowID == "") != (l.ID == id &&
						seq == 1) {
						t.Errorf("listed is %+v", l)
					}
				}
				if err := admin.New(w.Engine).DeleteDeadLetter(ctx, id, admin.Note{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				if letters, _, err = admin.New(w.Engine).
					DeadLetters(ctx, admin.DeadLetterQuery{}); err != nil ||
					len(letters) != 2 {
					t.Errorf("one was deleted, and there are %+v, %v", letters, err)
				}
			})
		})
	}
}

// A dead letter whose first entry is lost names no run. A retry of it is refused as corrupt, and it
// can still be deleted.
//
// spec: B-4
func TestARetryOfADamagedDeadLetterSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(context.Context) (int, error) {
				return 0, world.ErrOdd
			}, perdure.NoRetry)
		}, deadletter.Automatic(true))
		w := world.NewShop(t, perdure.Options{IdleTimeout: -1}, def)
		ctx := t.Context()
		run := world.Must[*perdure.Run[int]](t)(def.Start(ctx, w.Engine, 0, perdure.ID("x")))
		_, _ = run.Result(ctx)
		synctest.Wait()
		letters, _, err := admin.New(w.Engine).DeadLetters(ctx, admin.DeadLetterQuery{})
		if err != nil || len(letters) != 1 {
			t.Fatal(letters, err)
		}
		id := letters[0].ID
		world.Must[sql.Result](t)(w.DB.Exec(damage, 1, id))
		_, err = admin.New(w.Engine).RetryDeadLetter(ctx, id)
		world.CodeIs(t, err, journal.CodeCorrupt)
		world.CodeIs(t, admin.New(w.Engine).MarkHandled(ctx, id, "ada"), journal.CodeCorrupt)
		if err := admin.New(w.Engine).DeleteDeadLetter(ctx, id, admin.Note{}); err != nil {
			t.Error(err)
		}
	})
}

// The engine does not rely on the driver to notice it.
//
// spec: B-4
func TestAHoleThatADriverOverlooksParksTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Int32
		def := naps(&late)
		h := &world.Hook{OnClaim: func(
			_ store.Claim, do func() (store.Claimed, error),
		) (store.Claimed, error) {
			claimed, err := do()
			for i := range claimed.Runs {
				r := &claimed.Runs[i]
				r.Entries = slices.DeleteFunc(r.Entries, func(e journal.Entry) bool {
					return e.Seq == 2
				})
			}
			return claimed, err
		}}
		w := world.Hooked(t, h, perdure.Options{IdleTimeout: -1}, def)
		defer func() { w.End() }()
		run := world.Must[*perdure.Run[int]](t)(def.Start(t.Context(), w.Engine, 0))
		time.Sleep(2 * time.Hour)
		d := world.Must[perdure.Description](t)(w.Engine.Describe(t.Context(), run.ID()))
		if d.Head.Status != journal.Suspended || !strings.Contains(d.Why, "entry 2 ") ||
			late.Load() != 0 {
			t.Errorf("%v: %q, the late step was done %d times", d.Head.Status, d.Why, late.Load())
		}
	})
}
