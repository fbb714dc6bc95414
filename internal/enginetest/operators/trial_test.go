package operators

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// A poison kills the engine that executes it, by asking the test to.
type poison struct{ kill chan string }

func (p *poison) workflow(name string) *perdure.Workflow[int, int] {
	return perdure.Define(name, func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
			select {
			case <-time.After(time.Second):
				p.kill <- name
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			<-ctx.Done()
			return 0, ctx.Err()
		})
	})
}

// reign lets engines die until none has for a while, and returns how many have.
func (p *poison) reign(w *world.World) (deaths int) {
	for deaths = 0; deaths < 200; deaths++ {
		select {
		case <-p.kill:
			w.Crash()
		case <-time.After(10 * time.Minute):
			return deaths
		}
	}
	return deaths
}

// A run that kills its engines is parked, and no run that is in a step at that time is parked with
// it.
//
// spec: B-1
func TestARunThatKillsItsEnginesTakesNobodyAlong(t *testing.T) {
	for _, poisons := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			p := &poison{make(chan string)}
			innocent := perdure.Define("innocent", func(ctx context.Context, _ int) (int, error) {
				return perdure.Step(ctx, "s", world.Work("s", 30*time.Second, nil))
			})
			w := world.New(t, innocent, p.workflow("poison"))
			for i := range 5 {
				world.Start(w, innocent, 0, perdure.ID(fmt.Sprint("innocent-", i)))
			}
			for i := range poisons {
				if _, err := w.Engine.Start(t.Context(), "poison", []byte("0"),
					perdure.ID(fmt.Sprint("poison-", i))); err != nil {
					t.Fatal(err)
				}
			}
			if deaths := p.reign(w); deaths < 20 || deaths > 20*poisons {
				t.Errorf("%d engines died of %d runs", deaths, poisons)
			}
			for i := range 5 {
				if s := w.Describe(fmt.Sprint("innocent-", i)).Head.Status; s != journal.Completed {
					t.Errorf("innocent run %d is %v", i, s)
				}
			}
			for i := range poisons {
				if s := w.Describe(fmt.Sprint("poison-", i)).Head.Status; s != journal.Suspended {
					t.Errorf("poison run %d is %v", i, s)
				}
			}
			w.End()
		})
	}
}

// Kills from outside park no run, also if for a while no engine lives as long as a step.
//
// spec: B-1
func TestKillsFromOutsideParkNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs = 20
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", world.Work("s", 400*time.Millisecond, nil))
		})
		w := world.New(t, wf)
		for i := range runs {
			world.Start(w, wf, 0, perdure.ID(fmt.Sprint(i)))
		}
		for range 60 {
			time.Sleep(300 * time.Millisecond)
			w.Crash()
		}
		time.Sleep(time.Minute)
		for i := range runs {
			if s := w.Describe(fmt.Sprint(i)).Head.Status; s != journal.Completed {
				t.Errorf("run %d is %v", i, s)
			}
		}
		w.End()
	})
}

// A suspect that is unloaded, or whose engine stops in good order, has not killed it.
//
// spec: B-1
func TestASuspectIsAcquittedWhenItWaitsOrItsEngineStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var quick atomic.Bool
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if _, err := perdure.NewSignal[int]("go").Wait(ctx); err != nil {
				return 0, err
			}
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				if !quick.Load() {
					<-ctx.Done()
				}
				return 1, ctx.Err()
			})
		})
		w := world.New(t, wf)
		world.Start(w, wf, 0, perdure.ID("x"))
		for range 30 { // it waits
			synctest.Wait()
			w.Crash()
		}
		if _, err := w.Engine.Send(t.Context(), "x", "go", []byte("1")); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			time.Sleep(time.Second)
			w.Crash()
		}
		for range 30 { // it is in its step
			time.Sleep(time.Second)
			w.End()
			w.Begin()
		}
		time.Sleep(time.Second)
		if s := w.Describe("x").Head.Status; s != journal.Running {
			t.Errorf("the run is %v", s)
		}
		quick.Store(true)
		w.Crash()
		time.Sleep(time.Minute)
		if s := w.Describe("x").Head.Status; s != journal.Completed {
			t.Errorf("the run is %v", s)
		}
		w.End()
	})
}

// commands are the ways in which a run is resumed or cancelled, by an engine and from outside.
func commands(w *world.World) map[string]func(id, what string) error {
	from := func(c interface {
		Resume(context.Context, string) error
		Cancel(context.Context, string, string) error
	}) func(id, what string) error {
		return func(id, what string) error {
			if what == "resume" {
				return c.Resume(context.Background(), id)
			}
			return c.Cancel(context.Background(), id, "enough")
		}
	}
	c, err := perdure.NewClient(context.Background(), w.DB)
	if err != nil {
		w.T.Fatal(err)
	}
	return map[string]func(id, what string) error{"engine": from(w.Engine), "client": from(c)}
}

// A parked run, whatever the reason, does what operators ask, and its journal does not grow by
// itself.
//
// spec: L-16
func TestParkedRunsAreResumedAndCancelled(t *testing.T) {
	for _, cause := range []string{"deaths", "journal", "code", "error"} {
		for _, by := range []string{"engine", "client"} {
			for _, what := range []string{"resume", "cancel"} {
				t.Run(cause+"/"+by+"/"+what, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { parkedThen(t, cause, by, what) })
				})
			}
		}
	}
}

func parkedThen(t *testing.T, cause, by, what string) {
	p := &poison{make(chan string)}
	bad, other := true, false
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		if err := perdure.OnCancel(ctx, "tidy", func(context.Context) error {
			return nil
		}); err != nil {
			return 0, err
		}
		name := "s"
		if cause == "code" && bad && other {
			name = "t"
		}
		if err := world.PlainStep(ctx, name); err != nil {
			return 0, err
		}
		return perdure.Step(ctx, "kills", func(ctx context.Context) (int, error) {
			switch {
			case cause == "error" && bad:
				return 0, perdure.Parking(errors.New("look"))
			case bad:
				p.kill <- "w"
				<-ctx.Done()
			}
			return 1, ctx.Err()
		})
	})
	h := &world.Hook{OnClaim: func(
		c store.Claim, do func() (store.Claimed, error),
	) (store.Claimed, error) {
		claimed, err := do()
		for i := range claimed.Runs {
			if r := &claimed.Runs[i]; cause == "journal" && bad && len(r.Entries) > 1 {
				r.Err = &journal.CorruptError{Run: r.Head.Number, Seq: 2, Reason: "rotten"}
				r.Entries = r.Entries[:1]
			}
		}
		return claimed, err
	}}
	w := world.Hooked(t, h, perdure.Options{}, wf)
	world.Start(w, wf, 0, perdure.ID("x"))
	for range 100 {
		select {
		case <-p.kill:
			other = true
			w.Crash()
			continue
		case <-time.After(time.Hour):
		}
		break
	}
	if s := w.Describe("x").Head.Status; s != journal.Suspended {
		t.Fatalf("the run is %v", s)
	}
	before := entriesOf(w, "x")
	if what == "resume" {
		bad = false
	}
	if err := commands(w)[by]("x", what); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Hour)
	want := journal.Completed
	if what == "cancel" {
		want = journal.Cancelled
		if cause == "code" { // its clean-up needs its code
			want = journal.Suspended
		}
	}
	if s, n := w.Describe("x").Head.Status, entriesOf(w, "x"); s != want || n > before+10 {
		t.Errorf("the run is %v with %d entries, which were %d; want %v", s, n, before, want)
	}
	if cause == "code" && what == "cancel" {
		bad = false
		if err := commands(w)[by]("x", "resume"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if s := w.Describe("x").Head.Status; s != journal.Cancelled {
			t.Errorf("with its code mended the run is %v", s)
		}
	}
	w.End()
}

func entriesOf(w *world.World, id string) int {
	w.T.Helper()
	entries, err := w.Engine.History(context.Background(), id, 0, 0)
	if err != nil {
		w.T.Fatal(err)
	}
	return len(entries)
}

// A run whose journal is not readable, and is not mended, is parked again each time that it is
// resumed, once.
//
// spec: L-16
func TestARunWithARottenJournalIsParkedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if err := world.PlainStep(ctx, "s"); err != nil {
				return 0, err
			}
			return 0, perdure.Sleep(ctx, time.Minute)
		}, perdure.Timeout(24*time.Hour))
		h := &world.Hook{OnClaim: func(
			c store.Claim, do func() (store.Claimed, error),
		) (store.Claimed, error) {
			claimed, err := do()
			for i := range claimed.Runs {
				claimed.Runs[i].Err = &journal.CorruptError{
					Run: claimed.Runs[i].Head.Number, Seq: 2, Reason: "rotten",
				}
				claimed.Runs[i].Entries = claimed.Runs[i].Entries[:1]
			}
			return claimed, err
		}}
		w := world.Hooked(t, h, perdure.Options{}, wf)
		defer w.End()
		world.Start(w, wf, 0, perdure.ID("x"))
		for _, by := range []string{"client", "engine"} {
			time.Sleep(time.Hour)
			before := entriesOf(w, "x")
			if err := commands(w)[by]("x", "resume"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			if s, n := w.Describe("x").Head.Status, entriesOf(w, "x"); s != journal.Suspended ||
				n > before+3 {
				t.Errorf("%s: the run is %v with %d entries, which were %d", by, s, n, before)
			}
		}
		time.Sleep(48 * time.Hour)
		if s := w.Describe("x").Head.Status; s != journal.TimedOut {
			t.Errorf("after its timeout the run is %v", s)
		}
	})
}

// A command to cancel a timer waits for the code of a suspect, which begins with its trial.
//
// spec: L-11, F-23
func TestATimerOfASuspectIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			perdure.Async(ctx, "long", world.Work("s", 20*time.Hour, nil))
			_, err := perdure.Timer(ctx, "limit", 30*time.Hour).Await(ctx)
			return string(journal.CodeOf(err)), nil
		})
		w := world.New(t, wf)
		defer func() { w.End() }()
		world.Start(w, wf, 0, perdure.ID("x"))
		time.Sleep(time.Second)
		for range 7 { // it is a suspect after five
			w.Crash()
			time.Sleep(time.Second)
		}
		w.Kill()
		client, err := perdure.NewClient(t.Context(), w.DB)
		if err == nil {
			err = client.CancelTimer(t.Context(), "x", "limit", "early")
		}
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		w.Begin()
		out, err := world.OutcomeOf(w, wf, "x")
		if out != string(perdure.CodeCancelled) || err != nil ||
			time.Since(began) > 15*time.Minute {
			t.Errorf("it gives %q, %v after %v", out, err, time.Since(began))
		}
	})
}
