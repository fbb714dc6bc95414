package perdure_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

// mailed plays a test in a world whose runs rest at every wait, and in one whose
// runs stay in memory for a while. Both must come to the same.
func mailed(t *testing.T, opts perdure.Options, test func(*testing.T, *world), workflows ...perdure.Definition) {
	t.Helper()
	for name, linger := range map[string]time.Duration{"rests": -1, "lingers": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, db: memory.New(), workflows: workflows, opts: opts}
				w.opts.Build, w.opts.Linger = "test", linger
				w.begin()
				defer func() { w.end() }()
				test(t, w)
			})
		})
	}
}

var (
	paid  = perdure.NewSignal[int]("paid")
	other = perdure.NewSignal[int]("other")
)

// send sends a signal, which must be delivered.
func send[T any](w *world, s perdure.Signal[T], id string, v T, opts ...perdure.SendOption) perdure.Delivery {
	w.t.Helper()
	d, err := s.Send(context.Background(), w.eng, id, v, opts...)
	if err != nil {
		w.t.Fatalf("send %v: %v", v, err)
	}
	return d
}

// begun starts a run by that ID.
func begun[I, O any](w *world, wf *perdure.Workflow[I, O], id string, in I) *perdure.Run[O] {
	w.t.Helper()
	run, err := wf.Start(context.Background(), w.eng, in, perdure.ID(id))
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// gives wants the output of the run of that ID, and no error.
func gives[I, O any](w *world, wf *perdure.Workflow[I, O], id string, want O) {
	w.t.Helper()
	run, err := wf.Get(context.Background(), w.eng, id)
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := run.Result(context.Background())
	if fmt.Sprint(out) != fmt.Sprint(want) || err != nil {
		w.t.Errorf("the run gives %v, %v, want %v", out, err, want)
	}
	w.history(id)
}

// unread gives the payloads of the messages that a run has not taken.
func unread(w *world, id string) []string {
	w.t.Helper()
	d, err := w.eng.Describe(context.Background(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	out := []string{}
	for _, m := range d.Unread {
		out = append(out, m.Name+"="+string(m.Data))
	}
	return out
}

// statusIs wants the status of a run.
func statusIs(w *world, id string, want journal.Status) {
	w.t.Helper()
	d, err := w.eng.Describe(context.Background(), id)
	if err != nil || d.Head.Status != want {
		w.t.Errorf("the run is %v, %v, want %v", d.Head.Status, err, want)
	}
}

// spec: R-17
func TestWhatIsSentBeforeTheEngineHasJoinedIsDelivered(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) { return paid.Wait(ctx) })
	mailed(t, perdure.Options{}, func(t *testing.T, w *world) {
		synctest.Wait()
		run := begun(w, wf, "order", 0)
		w.crash()
		if d := send(w, paid, string(run.RunID()), 7); d.Run != run.RunID() || d.Unrouted {
			t.Errorf("by the run ID: %+v", d)
		}
		gives(w, wf, "order", 7)

		none, err := perdure.New(memory.New(), perdure.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = paid.Send(ctx, none, "order", 1)
		codeIs(t, err, journal.CodeStopped)
	}, wf)
}
