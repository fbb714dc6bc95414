package operators

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tcc"
)

// until sleeps for a day, so its run has the slot of its workflow for so long.
func until(ctx context.Context, _ int) (string, error) {
	err := perdure.OnCancel(ctx, "clean", func(context.Context) error { return nil })
	if err != nil {
		return "", err
	}
	return "", perdure.Sleep(ctx, 24*time.Hour)
}

var terminated = admin.Order{Action: journal.ActionTerminate, By: "ada", Reason: "enough"}

// An operator in another process terminates runs whose workflow no engine has, wherever they are.
// The engine that there is ends each at once and leaves alone what it cannot do without the code.
//
// spec: R-40, L-10
func TestARunWhoseWorkflowNoEngineHasIsTerminated(t *testing.T) {
	kid := perdure.Define("kid", waits)
	parent := perdure.Define("parent", func(ctx context.Context, _ int) (string, error) {
		return kid.Child(ctx, 1, perdure.ID("kid")).Await(ctx)
	})
	one := perdure.Define("one", until, limit.Control{Concurrency: 1})
	other := perdure.Define("other", until)
	begins := perdure.Define("begins", until)
	for name, known := range map[string][]perdure.Definition{
		"an engine with another workflow": {parent}, "an engine without one": nil,
	} {
		t.Run(name, func(t *testing.T) {
			world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
				w := world.With(t, o, parent, kid, one, other)
				defer func() { w.End() }()
				start := func(def *perdure.Workflow[int, string], id string) {
					t.Helper()
					_, err := def.Start(t.Context(), w.Engine, 1, perdure.ID(id))
					world.NoError(t, err)
					time.Sleep(time.Second)
				}
				start(parent, "parent")
				for _, id := range []string{"holder", "first", "second"} {
					start(one, id)
				}
				for _, id := range []string{"parked", "asleep", "cancelled", "left"} {
					start(other, id)
				}
				world.NoError(t, w.Engine.Suspend(t.Context(), "parked", "audit"))
				time.Sleep(time.Hour)
				w.Deploy("next", known...)
				time.Sleep(time.Second)
				outside := world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), w.DB))
				_, err := begins.Start(t.Context(), outside, 1, perdure.ID("new"))
				world.NoError(t, err)
				world.NoError(t, outside.Cancel(t.Context(), "cancelled", "a mistake"))
				ended := []string{"kid", "holder", "first", "parked", "asleep", "new"}
				for _, id := range ended {
					_, err := admin.New(outside).Act(t.Context(), id, terminated)
					world.NoError(t, err)
				}
				time.Sleep(time.Minute)
				for _, id := range ended {
					d := w.Describe(id)
					if d.Head.Status != journal.Cancelled || d.State.By != "ada" ||
						d.State.Mode != journal.ActionTerminate {
						t.Errorf("%s is %v by %q: %s", id, d.Head.Status, d.State.By, d.Why)
					}
				}
				for id, want := range map[string]journal.Status{
					"cancelled": journal.Waiting, "left": journal.Waiting,
					"second": journal.Pending,
				} {
					if d := w.Describe(id); d.Head.Status != want || d.Head.Owner != 0 {
						t.Errorf("%s is %v, and engine %d has it: %s", id, d.Head.Status,
							d.Head.Owner, d.Why)
					}
				}
				if known != nil {
					d := w.Describe("parent")
					if !strings.Contains(d.Head.Error, "terminated: enough") {
						t.Errorf("the parent is %v: %s", d.Head.Status, d.Head.Error)
					}
				}
				w.Deploy("test", parent, kid, one, other)
				time.Sleep(time.Minute)
				for id, want := range map[string]journal.Status{
					"cancelled": journal.Cancelled, "second": journal.Waiting,
				} {
					if d := w.Describe(id); d.Head.Status != want {
						t.Errorf("with the workflow again, %s is %v: %s", id, d.Head.Status, d.Why)
					}
				}
			})
		})
	}
}

// The order comes when a TCC that is parked has decided. An engine without its workflow looks at it
// once, and leaves it alone. A resume that came with the order is not lost.
//
// spec: R-40, F-38
func TestADecidedTCCWhoseWorkflowNoEngineHasIsLeftAlone(t *testing.T) {
	c := tcc.New[int]("tcc").Park()
	tcc.Add(c, "a", func(context.Context, none) (string, error) { return "", nil }).
		Confirm(func(context.Context, none, string) error {
			return perdure.Permanent(errors.New("closed"))
		}).
		Cancel(func(context.Context, none, string) error { return nil })
	part := perdure.Define("part", func(ctx context.Context, _ int) (string, error) {
		_, err := c.Inline(ctx, 1)
		return "", err
	})
	other := perdure.Define("other", waits)
	for name, def := range map[string]struct {
		perdure.Definition
		start func(*world.World)
	}{
		"a TCC": {c, func(w *world.World) {
			world.StartAndSettle(w, c.Workflow, 1, perdure.ID("x"))
		}},
		"a part": {part, func(w *world.World) {
			world.StartAndSettle(w, part, 1, perdure.ID("x"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var taken atomic.Int64
				h := &world.Hook{OnClaim: func(
					_ store.Claim, do func() (store.Claimed, error),
				) (store.Claimed, error) {
					got, err := do()
					taken.Add(int64(len(got.Runs)))
					return got, err
				}}
				w := world.Hooked(t, h, perdure.Options{IdleTimeout: -1}, def.Definition)
				defer func() { w.End() }()
				def.start(w)
				time.Sleep(time.Minute)
				world.NoError(t, w.Engine.Suspend(t.Context(), "x", "audit"))
				w.Deploy("next", other)
				time.Sleep(time.Second)
				taken.Store(0)
				order := journal.Entry{
					Kind: journal.CancelAsked, At: time.Now(),
					Op: journal.Op{Name: "perdure:control"}, Detail: &journal.Detail{
						MessageDetail: journal.MessageDetail{Mode: journal.ActionTerminate},
					},
				}
				resume := journal.Entry{Kind: journal.ResumeAsked, At: time.Now(), Op: order.Op}
				n := w.Describe("x").Head.Number
				world.NoError(t, w.DB.Commit(t.Context(), &store.Group{
					Now: time.Now(), Changes: []store.Change{{Posts: []store.Post{
						{Run: n, Force: true, Message: resume},
						{Run: n, Force: true, Message: order},
					}}},
				}))
				time.Sleep(24 * time.Hour)
				d := w.Describe("x")
				if h := d.Head; h.Status != journal.Suspended || h.Cause != "audit" ||
					h.Owner != 0 || taken.Load() != 1 {
					t.Errorf("it is %v, %q, engine %d has it, taken %d times", h.Status, h.Cause,
						h.Owner, taken.Load())
				}
				w.Deploy("test", def.Definition)
				time.Sleep(time.Minute)
				d = w.Describe("x")
				if d.Head.Status != journal.Suspended || d.Head.Cause != "" {
					t.Errorf("resumed, it is %v: %s", d.Head.Status, d.Why)
				}
			})
		})
	}
}

// What has the workflow ends the run itself: its listeners hear of the end. When no engine has it
// any more, the others end it.
//
// spec: R-40, B-5
func TestAnEngineThatHasTheWorkflowEndsItsRuns(t *testing.T) {
	heard := 0
	def := perdure.Define("job", waits, perdure.Listener{
		Call: func(context.Context, perdure.Ended) error {
			heard++
			return nil
		},
	})
	other := perdure.Define("other", waits)
	synctest.Test(t, func(t *testing.T) {
		c := world.NewCluster(t, 1, def)
		defer c.End()
		has := c.Nodes[0]
		c.Node(other).Begin()
		for _, id := range []string{"a", "b"} {
			world.StartAndSettle(has, def, 1, perdure.ID(id))
		}
		time.Sleep(time.Minute)
		outside := world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), c.DB.Beside()))
		ends := func(id string) {
			t.Helper()
			_, err := admin.New(outside).Act(t.Context(), id, terminated)
			world.NoError(t, err)
			time.Sleep(time.Minute)
			d, err := outside.Describe(t.Context(), id)
			world.NoError(t, err)
			if d.Head.Status != journal.Cancelled {
				t.Errorf("%s is %v: %s", id, d.Head.Status, d.Why)
			}
		}
		ends("a")
		if heard != 1 {
			t.Error("the listener has not heard of the end")
		}
		c.Stop(has)
		ends("b")
	})
}

// An order to terminate is in the inbox, and the engine has not looked for orders yet. A command of
// its own process takes the run first. The order is not lost, although no engine has the workflow.
//
// spec: R-40
func TestAnOrderToTerminateIsNotLostByAnotherCommand(t *testing.T) {
	def := perdure.Define("job", until)
	other := perdure.Define("other", waits)
	for name, command := range map[string]func(context.Context, *perdure.Engine) error{
		"suspend": func(ctx context.Context, e *perdure.Engine) error {
			return e.Suspend(ctx, "x", "look")
		},
		"resume": func(ctx context.Context, e *perdure.Engine) error { return e.Resume(ctx, "x") },
		"cancel": func(ctx context.Context, e *perdure.Engine) error {
			return e.Cancel(ctx, "x", "a mistake")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var blind atomic.Bool
				h := &world.Hook{OnClaim: func(
					c store.Claim, do func() (store.Claimed, error),
				) (store.Claimed, error) {
					if due, is := c.(store.TakeDue); is && blind.Load() {
						return store.Claimed{Engine: due.Engine}, nil
					}
					return do()
				}}
				w := world.Hooked(t, h, perdure.Options{IdleTimeout: -1}, def)
				defer func() { w.End() }()
				world.StartAndSettle(w, def, 1, perdure.ID("x"))
				if name == "resume" {
					world.NoError(t, w.Engine.Suspend(t.Context(), "x", "audit"))
				}
				w.Deploy("next", other)
				time.Sleep(time.Second)
				blind.Store(true)
				outside := world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), w.DB))
				_, err := admin.New(outside).Act(t.Context(), "x", terminated)
				world.NoError(t, err)
				err = command(t.Context(), w.Engine) // the run may have ended before it
				blind.Store(false)
				time.Sleep(time.Minute)
				d := w.Describe("x")
				if d.Head.Status != journal.Cancelled || d.State.By != "ada" {
					t.Errorf("after the answer %v, it is %v by %q: %s", err, d.Head.Status,
						d.State.By, d.Why)
				}
			})
		})
	}
}
