package operators

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
)

// An outsider is a process without an engine, beside a cluster.
type outsider struct {
	*testing.T
	*world.Cluster
	*perdure.Client
}

// outside starts a run of each workflow under the workflow's name, one a second, and returns a
// process beside the engine that executes them.
func outside(t *testing.T, workflows ...*perdure.Workflow[int, string]) outsider {
	t.Helper()
	var all []perdure.Definition
	for _, w := range workflows {
		all = append(all, w)
	}
	o := outsider{T: t, Cluster: world.NewCluster(t, 1, all...)}
	var err error
	o.Client, err = perdure.NewClient(t.Context(), o.DB.Beside())
	world.NoError(t, err)
	for _, w := range workflows {
		_, err := w.Start(t.Context(), o.Nodes[0].Engine, 1, perdure.ID(w.Name()))
		world.NoError(t, err)
		time.Sleep(time.Second)
	}
	return o
}

// die kills the engine, and waits until its lease is over.
func (o outsider) die() {
	o.Kill(o.Nodes[0])
	time.Sleep(time.Minute)
}

// is checks the sentence about a run, and how many waits it lists.
func (o outsider) is(id, begins string, waits int) {
	o.T.Helper()
	d, err := o.Describe(o.T.Context(), id)
	if err != nil || !strings.HasPrefix(d.Why, begins) || len(d.Waits) != waits {
		o.T.Errorf("%s: %q with waits %+v, %v; want %q and %d", id, d.Why, d.Waits, err, begins,
			waits)
	}
}

var goOn = perdure.NewSignal[string]("go")

func refuse(context.Context) (string, error) { return "", errors.New("the bank is closed") }

func waits(ctx context.Context, _ int) (string, error) { return goOn.Wait(ctx) }

// What has come for a run while no engine has it ends its wait.
//
// spec: B-7
func TestAWaitThatIsOverIsNotShownWhileNoEngineHasTheRun(t *testing.T) {
	never := perdure.Retry{Attempts: 5, First: time.Hour}
	synctest.Test(t, func(t *testing.T) {
		o := outside(t,
			perdure.Define("signal", waits), perdure.Define("ended", waits),
			perdure.Define("held", waits),
			perdure.Define("picky", func(ctx context.Context, _ int) (string, error) {
				return goOn.Wait(ctx, perdure.Where(func(s string) bool { return s == "now" }))
			}),
			perdure.Define("decision", func(ctx context.Context, _ int) (string, error) {
				d, err := perdure.Park(ctx, "pay", "a big sum", "yes", "no")
				return d.Choice, err
			}),
			perdure.Define("timer", func(ctx context.Context, _ int) (string, error) {
				return "", perdure.Sleep(ctx, 30*time.Second)
			}),
			perdure.Define("retry", func(ctx context.Context, _ int) (string, error) {
				return perdure.Step(ctx, "pay", refuse, never)
			}),
		)
		_, err := goOn.Send(t.Context(), o.Nodes[0].Engine, "picky", "later")
		world.NoError(t, err)
		world.NoError(t, o.Suspend(t.Context(), "held", "audit"))
		time.Sleep(time.Second)
		o.is("timer", "it waits for timer ", 1)
		o.is("retry", "step pay has failed in attempt 1, and is tried again at ", 1)
		o.die()
		o.is("signal", "it waits for signal go; no engine", 1)
		o.is("decision", "it waits for an operator's decision pay", 1)
		o.is("timer", "no engine has the store", 0)
		o.is("picky", "it waits for signal go; no engine", 1)
		for _, id := range []string{"signal", "picky"} {
			_, err := goOn.Send(t.Context(), o.Client, id, "now")
			world.NoError(t, err)
		}
		world.NoError(t, o.Decide(t.Context(), "decision", "pay", perdure.Decision{Choice: "yes"}))
		world.NoError(t, o.Cancel(t.Context(), "ended", "a mistake"))
		world.NoError(t, o.Resume(t.Context(), "held"))
		o.is("signal", "signal go is in its inbox, and no engine has taken it up since", 0)
		o.is("picky", "signal go is in its inbox, and no engine has taken it up since", 0)
		o.is("decision", "decision pay is made, and no engine has taken it up since", 0)
		o.is("ended", "it is asked to end, and no engine has taken it up since", 1)
		o.is("held", "it was resumed, and no engine has taken it up since", 1)
		time.Sleep(2 * time.Hour)
		o.is("retry", "step pay has failed in attempt 1, and could be tried again since ", 0)
	})
}

// The end of a child is no wait any more, although its parent has not heard of it.
//
// spec: B-7
func TestAChildThatHasEndedIsNotAwaitedWhileNoEngineHasItsParent(t *testing.T) {
	child := perdure.Define("child", waits)
	synctest.Test(t, func(t *testing.T) {
		o := outside(t, perdure.Define("parent", func(ctx context.Context, _ int) (string, error) {
			return child.Child(ctx, 1, perdure.ID("kid")).Await(ctx)
		}))
		o.Node(child).Begin()
		defer o.End()
		o.is("parent", "it waits for child child", 1)
		o.die()
		_, err := goOn.Send(t.Context(), o.Client, "kid", "now")
		world.NoError(t, err)
		time.Sleep(time.Second)
		o.is("parent", "no engine has workflow parent", 0)
	})
}

// Each operation that is tried again is in the list, also beside a wait and in a clean-up.
//
// spec: B-7
func TestARetryIsShownBesideAWaitAndInACleanUp(t *testing.T) {
	retry := perdure.Retry{Attempts: 5, First: time.Hour}
	synctest.Test(t, func(t *testing.T) {
		o := outside(t,
			perdure.Define("both", func(ctx context.Context, _ int) (string, error) {
				f := perdure.Go(ctx, "x", func(ctx context.Context) (string, error) {
					return goOn.Wait(ctx)
				})
				if _, err := perdure.Step(ctx, "pay", refuse, retry); err != nil {
					return "", err
				}
				return f.Await(ctx)
			}),
			perdure.Define("clean", func(ctx context.Context, _ int) (string, error) {
				err := perdure.Finally(ctx, "tidy", func(ctx context.Context) error {
					_, err := perdure.Step(ctx, "undo", refuse, retry)
					return err
				})
				return "", errors.Join(err, errors.New("no money"))
			}),
		)
		defer o.End()
		o.is("both", "it waits for signal x/go", 2)
		o.is("clean", "it cleans up before it ends as FAILED: step tidy/undo has failed in "+
			"attempt 1, and is tried again at ", 1)
		_, err := admin.New(o.Nodes[0].Engine).Act(t.Context(), "clean", admin.Order{
			Action: journal.ActionSuspend, By: "ada", Reason: "audit",
		})
		world.NoError(t, err)
		d, err := o.Describe(t.Context(), "clean")
		if err != nil || !strings.HasSuffix(d.Why, "it is parked by ada in its clean-ups: audit") {
			t.Errorf("%q, %v", d.Why, err)
		}
	})
}

// The place in line is that of the limit that the sentence names, and it is in the list of a run
// that has not begun.
//
// spec: B-7
func TestThePlaceInLineIsThatOfTheLimitThatIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door, attic := limit.Semaphore{Name: "door"}, limit.Semaphore{Name: "attic"}
		takes := func(all ...limit.Semaphore) func(context.Context, int) (string, error) {
			return func(ctx context.Context, _ int) (string, error) {
				var waits []*perdure.Future[string]
				for _, s := range all {
					waits = append(waits, perdure.Go(ctx, s.Name,
						func(ctx context.Context) (string, error) {
							if _, err := s.Acquire(ctx); err != nil {
								return "", err
							}
							return goOn.Wait(ctx)
						}))
				}
				_, err := perdure.All(ctx, nil, waits...)
				return "", err
			}
		}
		one := perdure.Define("one", waits, limit.Control{Concurrency: 1})
		o := outside(t, one, perdure.Define("a", takes(door, attic)),
			perdure.Define("b", takes(door)), perdure.Define("c", takes(door, attic)),
			perdure.Define("d", takes(attic, door)),
			perdure.Define("e", func(ctx context.Context, _ int) (string, error) {
				f := goOn.Future(ctx)
				if _, err := door.Acquire(ctx); err != nil {
					return "", err
				}
				return f.Await(ctx)
			}))
		defer o.End()
		_, err := one.Start(t.Context(), o.Nodes[0].Engine, 1, perdure.ID("late"))
		world.NoError(t, err)
		time.Sleep(time.Second)
		o.is("c", "it waits at door/door for limit door:lock: it is number 2 of 4 in line", 2)
		o.is("d", "it waits at attic/attic for limit attic:lock: it is number 2 of 2 in line", 2)
		d, err := o.Describe(t.Context(), "e")
		if err != nil || d.Why != "it waits for signal go" {
			t.Errorf("%q, %v", d.Why, err)
		}
		o.is("late", "it waits for a slot of limit one: it is number 1 of 1 in line", 1)
	})
}
