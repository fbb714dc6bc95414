package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// A dead is a broker that refuses events while it is down, and loses some answers.
type dead struct {
	bus.Local
	mu   sync.Mutex
	down bool
	n    int
}

func (d *dead) set(down bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = down
}

func (d *dead) Publish(ctx context.Context, topic string, events []event.Event) error {
	d.mu.Lock()
	down := d.down
	d.n++
	n := d.n
	d.mu.Unlock()
	if down {
		return errNo
	}
	err := d.Local.Publish(ctx, topic, events)
	if n%3 == 0 {
		return errNo // the answer is lost
	}
	return err
}

func outbound(b bus.Broker) func(context.Context, perdure.Event) error {
	return bus.Outbound{To: b, Topic: "out"}.Publish
}

// heard returns the events of a topic, each once, in the order of their first arrival.
func heard(t *testing.T, b bus.Broker, topic string) (all []event.Event) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	seen := map[string]bool{}
	go func() {
		defer close(ended)
		_ = b.Subscribe(ctx, topic, "heard", func(m bus.Message) {
			if !seen[m.Event.Key()] {
				seen[m.Event.Key()] = true
				all = append(all, m.Event)
			}
			_ = m.Done(ctx)
		})
	}()
	synctest.Wait()
	cancel()
	<-ended
	return all
}

// The events of each run come in their order, over a broker that is down for minutes and loses
// answers, and over the death of the engine.
//
// spec: F-10, R-29, A-9
func TestAPublisherSendsEachEventOfARunInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs, each = 5, 4
		b := &dead{down: true}
		talks := perdure.Define("talks", func(ctx context.Context, n int) (int, error) {
			for i := range each {
				err := perdure.Do(ctx, fmt.Sprint("step", i), func(ctx context.Context) error {
					return perdure.Emit(ctx, "said", fmt.Sprint(n, " ", i))
				})
				if err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		w := world.With(t, perdure.Options{Publisher: outbound(b)}, talks)
		for i := range runs {
			world.Must[*perdure.Run[int]](t)(talks.Start(t.Context(), w.Engine, i,
				perdure.ID(fmt.Sprint("r", i))))
		}
		time.Sleep(5 * time.Minute)
		if n := w.Count()[perdure.StatusCompleted]; n != runs {
			t.Errorf("%d runs have ended while the broker is down", n)
		}
		w.Crash()
		b.set(false)
		time.Sleep(time.Hour)
		got := map[string][]string{}
		for _, e := range heard(t, b, "out") {
			var said string
			if err := json.Unmarshal(e.Data, &said); err != nil || e.Type != "said" ||
				e.Source != "/perdure/talks" || e.Extensions[bus.ExtStep] == "" ||
				e.Extensions[bus.ExtRun] == "" || e.Extensions[bus.ExtWorkflow] != "talks" {
				t.Errorf("%+v, %v", e, err)
			}
			got[e.Subject] = append(got[e.Subject], said)
		}
		for i := range runs {
			var want []string
			for n := range each {
				want = append(want, fmt.Sprint(i, " ", n))
			}
			if id := fmt.Sprint("r", i); !slices.Equal(got[id], want) {
				t.Errorf("%s: %q", id, got[id])
			}
		}
		w.End()
	})
}

// spec: F-10
func TestAnEventOfAPatternHasItsFieldsAsExtensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus.Local{}
		emits := perdure.Define("emits", func(ctx context.Context, _ int) (int, error) {
			return 0, errors.Join(
				pattern.EmitEvent(ctx, perdure.Event{
					Type: "x", Topic: "own", Key: "k", Kind: pattern.EventStepFailed, Step: "s",
					Status: perdure.StatusFailed, Data: []byte("1"),
				}),
				pattern.EmitEvent(ctx, perdure.Event{Type: "raw", Data: []byte("{")}),
			)
		})
		w := world.With(t, perdure.Options{Publisher: outbound(b)}, emits)
		world.Must[*perdure.Run[int]](t)(emits.Start(t.Context(), w.Engine, 1, perdure.ID("a")))
		own, out := heard(t, b, "own"), heard(t, b, "out")
		w.End()
		if len(own) != 1 || len(out) != 1 {
			t.Fatalf("%+v, %+v", own, out)
		}
		e := own[0]
		e.Extensions[bus.ExtRun] = "r"
		if got := fmt.Sprint(e.Extensions); e.Type != "x" || e.Subject != "a" || e.Time.IsZero() ||
			string(e.Data) != "1" || got != "map[kind:STEP_FAILED partitionkey:k pattern:WORKFLOW "+
			"runid:r status:FAILED step:s workflow:emits]" {
			t.Errorf("%+v", e)
		}
		if e := out[0]; e.ContentType != "application/octet-stream" || string(e.Data) != "{" {
			t.Errorf("%+v", e)
		}
	})
}

// spec: A-17, F-11
func TestATraceGoesOnThroughARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		b, g := &bus.Local{}, bus.NewGateway()
		child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
			return 0, perdure.Do(ctx, "emit", func(ctx context.Context) error {
				return perdure.Emit(ctx, "inner", 1)
			})
		})
		w := world.With(t, perdure.Options{Publisher: outbound(b)}, child, perdure.Define("traced",
			func(ctx context.Context, n int) (int, error) {
				if err := perdure.Emit(ctx, "outer", n); err != nil {
					return 0, err
				}
				return child.Child(ctx, 1).Await(ctx)
			}, g.Starts("begin", bus.Route{})))
		e := with("1", "begin", "1")
		e.Extensions = map[string]string{event.ExtTrace: trace}
		if err := g.On(t.Context(), w.Engine.Client, e); err != nil {
			t.Fatal(err)
		}
		all := heard(t, b, "out")
		w.End()
		if len(all) != 2 || all[0].Extensions[event.ExtTrace] != trace ||
			all[1].Extensions[event.ExtTrace] != trace {
			t.Errorf("%+v", all)
		}
	})
}

// An engine without lifecycle events does not call the listener, and calls others.
//
// spec: R-30, P-13
func TestLifecycleEventsAreSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, others := &dead{}, 0
		wf := perdure.Define("w", func(context.Context, int) (int, error) { return 1, nil },
			bus.Lifecycle(b, "ends"), perdure.Listener{
				Call: func(context.Context, perdure.Ended) error {
					others++
					return nil
				},
			})
		w := world.With(t, perdure.Options{NoLifecycle: true}, wf)
		world.Must[func()](t)(w.Engine.Listen(bus.Lifecycle(b, "ends")))
		world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), w.Engine, 1, perdure.ID("a")))
		time.Sleep(time.Hour)
		w.End()
		if got := heard(t, b, "ends"); len(got) > 0 || others != 1 {
			t.Errorf("published are %v, and another listener was called %d times", got, others)
		}
	})
}

// spec: R-30
func TestOneLifecycleEventForEachLogicalRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &dead{down: true}
		counts := perdure.Define("counts", func(ctx context.Context, n int) (int, error) {
			switch {
			case n > 0:
				return 0, perdure.ContinueAsNew(ctx, n-1)
			case n < 0:
				return 0, perdure.Permanent(errNo)
			}
			return 42, nil
		}, bus.Lifecycle(b, "ends"))
		w := world.With(t, perdure.Options{}, counts)
		for id, n := range map[string]int{"a": 2, "b": 0, "c": -1} {
			world.Must[*perdure.Run[int]](t)(counts.Start(t.Context(), w.Engine, n, perdure.ID(id)))
		}
		time.Sleep(time.Minute)
		w.Crash()
		b.set(false)
		time.Sleep(time.Hour)
		got := map[string]bus.End{}
		for _, e := range heard(t, b, "ends") {
			var end bus.End
			if err := json.Unmarshal(e.Data, &end); err != nil || e.Type != bus.RunEnded ||
				e.Subject != end.WorkflowID || e.ID != end.RunID+".ended" {
				t.Errorf("%+v, %v", e, err)
			}
			if _, twice := got[end.WorkflowID]; twice {
				t.Errorf("%s has ended twice", end.WorkflowID)
			}
			if strings.Contains(string(e.Data), "42") {
				t.Errorf("the output is in %s", e.Data)
			}
			got[end.WorkflowID] = end
		}
		chain := w.Chain("a")
		a, c := got["a"], got["c"]
		if len(got) != 3 || a.Status != "COMPLETED" || !a.Success || a.Error != "" ||
			a.RunID == a.FirstRunID || len(chain) != 3 || a.Name != "counts" ||
			a.Pattern != "WORKFLOW" || a.EndedAt.IsZero() {
			t.Errorf("%+v, a chain of %d", got, len(chain))
		}
		if c.Success || c.Status != "FAILED" || !strings.Contains(c.Error, "no") ||
			c.RunID != c.FirstRunID {
			t.Errorf("%+v", c)
		}
		w.End()
	})
}

// spec: A-10, P-15
func TestLettersAreInTheStoreAndAreReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t)
		operator := admin.New(w.Engine)
		letters, b, d := bus.Letters{Admin: operator}, &bus.Local{}, &handler{}
		works := false
		d.handle = func(event.Event, int) error {
			if !works {
				return errNo
			}
			return nil
		}
		c := d.consumer(b)
		c.DeadLetter = letters.Keep
		c.Group = "my group/1"
		stop := runs(t, c)
		for _, e := range []event.Event{about("a", 1), about("b", 2), about("a", 1)} {
			publish(t, b, e)
		}
		time.Sleep(time.Hour)
		stop()
		all, _, err := operator.DeadLetters(t.Context(), admin.DeadLetterQuery{})
		if err != nil || len(all) != 2 || all[0].Workflow != "bus.my-group-1" ||
			all[0].Step != "t" || all[0].Error != "no" {
			t.Fatalf("%+v, %v", all, err)
		}
		for range 2 {
			err := letters.Replay(t.Context(), all[0].ID, d.Handle)
			if (err == nil) != works {
				t.Errorf("the replay gives %v", err)
			}
			works = true
		}
		if err := letters.Replay(t.Context(), all[0].ID, d.Handle); err == nil {
			t.Error("a letter that is handled is replayed")
		}
		left, _, err := operator.DeadLetters(t.Context(), admin.DeadLetterQuery{})
		if err != nil || len(left) != 1 || len(d.done) != 1 {
			t.Errorf("%+v, %v; done: %+v", left, err, d.done)
		}
		bad := bus.Letter{Topic: "t", Group: "g", Raw: []byte("{"), Err: errNo}
		if err := letters.Keep(t.Context(), bad); err != nil {
			t.Fatal(err)
		}
		left, _, err = operator.DeadLetters(t.Context(), admin.DeadLetterQuery{Workflow: "bus.g"})
		if err != nil || len(left) != 1 {
			t.Fatalf("%+v, %v", left, err)
		}
		var r bus.Rejection
		if err := letters.Replay(t.Context(), left[0].ID, d.Handle); !errors.As(err, &r) {
			t.Errorf("a message that is no event is replayed: %v", err)
		}
		w.End()
	})
}

// The key of an event may be no valid attribute of a CloudEvent. It holds up no other event.
//
// spec: F-10
func TestAKeyThatIsNoAttributeHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus.Local{}
		w := perdure.Define("w", func(ctx context.Context, i int) (int, error) {
			for _, key := range []string{"a\nb", "c", "d"}[i:] {
				err := pattern.EmitEvent(ctx, perdure.Event{
					Type: "x", Key: key, Data: []byte("1"),
				})
				if err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		engine, err := perdure.New(store.Store(memory.New()), perdure.Options{
			Publisher: bus.Outbound{To: b, Topic: "t"}.Publish,
			Logger:    slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.Register(w); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- engine.Run(ctx) }()
		var h handler
		halt := runs(t, h.consumer(b))
		for i := range 2 {
			if _, err := w.Start(ctx, engine, i); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(24 * time.Hour)
		if _, all := h.ids(); len(all) != 5 {
			t.Errorf("after a day, %d of 5 events are published", len(all))
		}
		halt()
		stop()
		<-ended
	})
}

type tooLarge struct {
	bus.Local
	calls int
}

func (b *tooLarge) Publish(context.Context, string, []event.Event) error {
	b.calls++
	return fmt.Errorf("publish: %w", bus.ErrTooLarge)
}

// The events of a lifecycle that a broker never takes are given up, not tried for ever.
//
// spec: R-30
func TestLifecycleGivesUpWhatTheBrokerNeverTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &tooLarge{}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		_ = bus.Lifecycle(b, "t").Call(ctx, perdure.Ended{
			RunID: "r", Workflow: "w", WorkflowID: "i",
		})
		if ctx.Err() != nil {
			t.Errorf("%d calls in a day", b.calls)
		}
	})
}
