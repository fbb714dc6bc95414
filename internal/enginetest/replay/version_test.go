package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
)

// versioned is a workflow as builds have it: one without a change, if max is 0, and later ones. It
// returns the versions that it met before its first step, after it, and at its end.
func versioned(max int) *perdure.Workflow[int, [3]int] {
	version := func(ctx context.Context, change string) (int, error) {
		if max == 0 {
			return 0, nil
		}
		return perdure.Version(ctx, change, max)
	}
	return perdure.Define("w", func(ctx context.Context, _ int) (out [3]int, err error) {
		if out[0], err = version(ctx, "early"); err != nil {
			return out, err
		}
		if _, err = perdure.Step(ctx, "a", world.Work("a", time.Second, nil)); err != nil {
			return out, err
		}
		if out[0] > 0 {
			if _, err = perdure.Step(ctx, fmt.Sprint("a", out[0]),
				world.Work("x", time.Second, nil)); err != nil {
				return out, err
			}
		}
		if out[1], err = version(ctx, "middle"); err != nil {
			return out, err
		}
		if err = perdure.Sleep(ctx, 24*time.Hour); err != nil {
			return out, err
		}
		if out[2], err = version(ctx, "late"); err != nil {
			return out, err
		}
		again, err := version(ctx, "early")
		if err == nil && again != out[0] {
			err = fmt.Errorf("early is %d and then %d", out[0], again)
		}
		return out, err
	})
}

// spec: B-2, R-38
func TestVersionIsDecidedOncePerRun(t *testing.T) {
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		want := map[string][3]int{"0": {0, 0, 3}, "1": {1, 1, 3}, "3": {3, 3, 3}}
		for _, max := range []int{0, 1, 3} {
			if max > 0 {
				w.Deploy(fmt.Sprint("build-", max), versioned(max))
			}
			if _, err := w.Engine.Start(context.Background(), "w", []byte("0"),
				perdure.ID(fmt.Sprint(max))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		markers, err := admin.New(w.Engine).Versions(context.Background(), "w")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range markers.Markers {
			if len(m.Runs) > 0 {
				got = append(got, fmt.Sprintf("%s=%d:%d", m.Change, m.Version, len(m.Runs)))
			}
		}
		// What is unloaded has met later code, which has decided for it.
		if s := strings.Join(got, " "); !strings.Contains(
			s, "early=1:1 early=3:1 middle=1:1 middle=3:1") {
			t.Errorf("markers %s", s)
		}
		if none, err := admin.New(w.Engine).Versions(context.Background(), "other"); err != nil ||
			len(none.Markers) != 0 {
			t.Errorf("markers of another workflow: %v %v", none, err)
		}
		w.Crash()
		for id, want := range want {
			run, err := versioned(3).Get(context.Background(), w.Engine, id)
			if err != nil {
				t.Fatal(err)
			}
			if out, err := run.Result(context.Background()); out != want || err != nil {
				t.Errorf("run of build %s: %v, want %v, %v", id, out, want, err)
			}
			w.History(id)
		}
		if rest, err := admin.New(w.Engine).Versions(context.Background(), ""); err != nil ||
			len(rest.Markers) != 0 {
			t.Errorf("when all runs have ended, markers are %v, %v", rest, err)
		}
	}, versioned(0))
}

// The error is the reason for the suspension: the run does not end with it.
//
// spec: B-2, R-38, L-2
func TestVersionThatTheCodeNoLongerKnowsIsAnError(t *testing.T) {
	code := func(max int) perdure.Definition {
		return perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			v, err := perdure.Version(ctx, "change", max)
			if err != nil {
				return v, err
			}
			return v, perdure.Sleep(ctx, time.Hour)
		})
	}
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		if _, err := w.Engine.Start(context.Background(), "w", []byte("0"),
			perdure.ID("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.Deploy("older", code(2))
		time.Sleep(time.Minute)
		w.Crash()
		time.Sleep(2 * time.Hour)
		d, err := w.Engine.Describe(context.Background(), "x")
		if err != nil || d.Head.Status != journal.Suspended ||
			!strings.Contains(d.Why, "version 3") || !strings.Contains(d.Why, "up to 2") {
			t.Error(d.Head.Status, d.Why, err)
		}
		w.Deploy("newer", code(4))
		if err := w.Engine.Resume(context.Background(), "x"); err != nil {
			t.Fatal(err)
		}
		run, err := w.Engine.Get(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(context.Background()); string(out) != "3" || err != nil {
			t.Error(string(out), err)
		}
		w.History("x")
	}, code(3))
}

// spec: B-2, R-38
func TestVersionsInBranchesAreThoseOfTheRun(t *testing.T) {
	world.OverCrashes(t, 5, func() world.Scenario {
		var max atomic.Int32
		max.Store(1)
		l := world.NewLedger()
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			version := func(ctx context.Context, change string) int {
				v, err := perdure.Version(ctx, change, int(max.Load()))
				if err != nil {
					panic(err)
				}
				return v
			}
			var bs []*perdure.Future[int]
			for i := range 3 {
				bs = append(bs, perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
					first := version(ctx, "shared")
					if _, err := perdure.Step(ctx, "s",
						l.Effect(fmt.Sprintf("%d by %d", i, first),
							time.Duration(i)*time.Second)); err != nil {
						return 0, err
					}
					own := version(ctx, fmt.Sprint("own-", i))
					if err := perdure.Sleep(ctx, time.Minute); err != nil {
						return 0, err
					}
					if then := version(ctx, "shared"); then != first {
						return 0, fmt.Errorf("shared was %d and is %d", first, then)
					}
					if then := version(ctx, fmt.Sprint("own-", i)); then != own {
						return 0, fmt.Errorf("own was %d and is %d", own, then)
					}
					return first, nil
				}))
			}
			out := fmt.Sprint(version(ctx, "shared"))
			for _, b := range bs {
				v, err := b.Await(ctx)
				if err != nil {
					return "", err
				}
				out += fmt.Sprint(" ", v)
			}
			patch, err := perdure.Version(ctx, "patch", 1)
			return fmt.Sprint(out, patch == 1), err
		})
		return world.Scenario{
			Workflows: []perdure.Definition{wf},
			Begin: func(w *world.World) error {
				_, err := wf.Start(context.Background(), w.Engine, 0, perdure.ID("x"))
				return err
			},
			Crashed: func(w *world.World) {
				w.Options.Build = "next"
				max.Store(2)
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
				if err != nil || out != "1 1 1 1true" && (crashes == 0 || out != "2 2 2 2true") {
					t.Errorf("%q %v", out, err)
				}
				if got := l.Did(); len(got) != 3 {
					t.Errorf("effects %v", got)
				}
				w.History("x")
			},
		}
	})
}

// spec: R-38, B-2
func TestPatchedTellsOldRunsFromNewOnes(t *testing.T) {
	code := func(patched bool) perdure.Definition {
		return perdure.Define("w", func(ctx context.Context, _ int) ([]string, error) {
			var out []string
			carrier := func(ctx context.Context, name string) error {
				_, err := perdure.Step(ctx, name, world.Work(name, time.Second, nil))
				out = append(out, name)
				return err
			}
			version := 0
			if patched {
				var err error
				if version, err = perdure.Version(ctx, "two-carriers", 1); err != nil {
					return nil, err
				}
			}
			if version == 1 {
				if err := carrier(ctx, "north"); err != nil {
					return nil, err
				}
			}
			err := errors.Join(carrier(ctx, "south"), perdure.Sleep(ctx, time.Hour))
			return out, err
		})
	}
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		start := func(id string) {
			if _, err := w.Engine.Start(context.Background(), "w", []byte("0"),
				perdure.ID(id)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		start("old")
		w.Deploy("two", code(true))
		start("new")
		w.Crash()
		for id, want := range map[string]string{"old": `["south"]`, "new": `["north","south"]`} {
			run, err := w.Engine.Get(context.Background(), id)
			if err != nil {
				t.Fatal(err)
			}
			if out, err := run.Result(context.Background()); err != nil || string(out) != want {
				t.Errorf("%s run: %s, want %s, %v", id, out, want, err)
			}
		}
	}, code(false))
}

// spec: B-2
func TestVersionsThatCannotBeAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			for change, max := range map[string]int{
				"zero":       0,
				"negative":   -1,
				"not a name": 1,
				"":           1,
			} {
				if _, err := perdure.Version(ctx, change,
					max); journal.CodeOf(err) != journal.CodeInvalid {
					return 0, fmt.Errorf("%q of %d gives %w", change, max, err)
				}
			}
			return 0, nil
		})
		w := world.New(t, wf)
		defer w.End()
		run, _, err := world.Result(w, wf, 0)
		if entries := w.History(run.ID()); err != nil || len(entries) != 2 {
			t.Error(err, len(entries))
		}
	})
}
