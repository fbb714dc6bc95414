package steplog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/effect"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/steplog"
)

var errDown = errors.New("the bank is down")

// quiet is a logger of an application that discards everything.
var quiet = slog.New(steplog.Handler(slog.DiscardHandler))

// shown returns lines as text.
func shown(lines []steplog.Line) (out []string) {
	for _, l := range lines {
		text := fmt.Sprintf("%s %d %v %s %s", l.Step, l.Attempt, l.Level, l.Message, l.Attrs)
		out = append(out, strings.TrimSpace(text))
	}
	return out
}

func read(t testing.TB, c perdure.Caller, q steplog.Query) []string {
	t.Helper()
	lines, err := steplog.Read(context.Background(), c, "a", q)
	world.NoError(t, err)
	return shown(lines)
}

func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// pay logs in each attempt of a step, the first of which fails, and in a branch.
func pay(ctx context.Context, _ int) (int, error) {
	n, err := perdure.Step(ctx, "charge", func(ctx context.Context) (int, error) {
		n, _, err := perdure.Attempt(ctx)
		quiet.With("order", 7).WithGroup("to").InfoContext(ctx, "charging", "cents", 5)
		if n == 1 {
			quiet.ErrorContext(ctx, "no answer")
			return 0, errDown
		}
		return n, err
	}, perdure.Retry{Attempts: 2, First: time.Minute, Factor: 1})
	if err != nil {
		return 0, err
	}
	return perdure.Go(ctx, "pack", func(ctx context.Context) (int, error) {
		return perdure.Step(ctx, "print", func(ctx context.Context) (int, error) {
			quiet.WarnContext(ctx, "no paper")
			quiet.DebugContext(ctx, "not kept")
			return n, nil
		})
	}).Await(ctx)
}

var paid = []string{
	`charge 1 INFO charging {"order":7,"to":{"cents":5}}`, `charge 1 ERROR no answer`,
	`charge 2 INFO charging {"order":7,"to":{"cents":5}}`, `pack/print 1 WARN no paper`,
}

// spec: B-24
func TestTheLinesOfStepsAreKeptByAttempt(t *testing.T) {
	def := perdure.Define("pay", pay, steplog.Keep{})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		world.StartAndSettle(w, def, 0, perdure.ID("a"))
		same(t, "after the first attempt", read(t, w.Engine, steplog.Query{}), paid[:2])
		began := time.Now()
		world.Pause(t.Context(), time.Hour)
		same(t, "all", read(t, w.Engine, steplog.Query{}), paid)
		same(t, "of a step", read(t, w.Engine, steplog.Query{Step: "charge"}), paid[:3])
		same(t, "of an attempt", read(t, w.Engine, steplog.Query{Step: "charge", Attempt: 2}),
			paid[2:3])
		lines, err := steplog.Read(t.Context(), w.Engine, "a", steplog.Query{})
		world.NoError(t, err)
		if at := lines[0].Time; !at.Equal(began) {
			t.Errorf("the first line is of %v, want %v", at, began)
		}
		same(t, "later ones", read(t, w.Engine, steplog.Query{After: lines[0].Entry}), paid[2:])
		_, err = steplog.Read(t.Context(), w.Engine, "b", steplog.Query{})
		world.CodeIs(t, err, journal.CodeNotFound)
		if bad := world.Audit(w.Describe("a"), w.History("a")); len(bad) > 0 {
			t.Error(bad)
		}
	}, def)
}

// spec: B-24
func TestNothingIsKeptWithoutTheOption(t *testing.T) {
	plain := perdure.Define("plain", pay)
	except := perdure.Define("except", func(ctx context.Context, _ int) (int, error) {
		for name, keep := range map[string]perdure.StepOption{
			"none": steplog.Keep{Attempt: -1}, "all": steplog.Keep{Level: slog.LevelDebug},
		} {
			if _, err := perdure.Step(ctx, name, func(ctx context.Context) (int, error) {
				quiet.DebugContext(ctx, "line")
				return 0, nil
			}, keep); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}, steplog.Keep{})
	for def, want := range map[*perdure.Workflow[int, int]][]string{
		plain: nil, except: {"all 1 DEBUG line"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := world.New(t, def)
			world.StartAndSettle(w, def, 0, perdure.ID("a"))
			world.Pause(t.Context(), time.Hour)
			same(t, "lines", read(t, w.Engine, steplog.Query{}), want)
			w.End()
		})
	}
}

// The application's handler gets every line, with its attributes, and decides about levels.
//
// spec: B-24
func TestTheHandlerOfTheApplicationGetsEveryLine(t *testing.T) {
	var out bytes.Buffer
	text := slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "run_id" && a.Value.String() != "" {
				return slog.Attr{}
			}
			return a
		},
	})
	log := slog.New(steplog.Handler(steplog.Handler(text))).With("a", 1)
	def := perdure.Define("def", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
			log.InfoContext(ctx, "for the run")
			log.WarnContext(ctx, "for both", "b", 2)
			log.Warn("for the application")
			return 0, nil
		}, steplog.Keep{})
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, def)
		world.StartAndSettle(w, def, 0, perdure.ID("a"))
		same(t, "kept", read(t, w.Engine, steplog.Query{}), []string{
			`s 1 INFO for the run {"a":1}`, `s 1 WARN for both {"a":1,"b":2}`,
		})
		same(t, "told", strings.Split(strings.TrimSpace(out.String()), "\n"), []string{
			`level=WARN msg="for both" a=1 b=2 workflow=def step=s attempt=1`,
			`level=WARN msg="for the application" a=1`,
		})
		w.End()
	})
}

// spec: B-24
func TestALoggerKeepsLinesWithoutAContext(t *testing.T) {
	was := slog.Default()
	defer slog.SetDefault(was)
	for _, next := range []slog.Handler{
		slog.DiscardHandler, steplog.Handler(slog.DiscardHandler),
	} {
		slog.SetDefault(slog.New(next))
		def := perdure.Define("def", func(ctx context.Context, _ int) (int, error) {
			steplog.Logger(ctx).Info("of no step")
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				log := steplog.Logger(ctx)
				log.Info("without")
				log.InfoContext(ctx, "with")
				return 0, nil
			}, steplog.Keep{})
		})
		synctest.Test(t, func(t *testing.T) {
			w := world.New(t, def)
			world.StartAndSettle(w, def, 0, perdure.ID("a"))
			same(t, "kept", read(t, w.Engine, steplog.Query{}),
				[]string{"s 1 INFO without", "s 1 INFO with"})
			w.End()
		})
	}
}

// Lines are in few entries: the full ones at once, the others after a second.
//
// spec: B-24
func TestLinesAreCollected(t *testing.T) {
	slow := perdure.Define("slow", func(ctx context.Context, n int) (int, error) {
		return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
			for i := range n {
				quiet.InfoContext(ctx, fmt.Sprint("line ", i))
			}
			world.Pause(ctx, time.Minute)
			quiet.InfoContext(ctx, "last")
			return 0, nil
		}, steplog.Keep{})
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, slow)
		world.StartAndSettle(w, slow, 250, perdure.ID("a"))
		entries := func() (n int) {
			for _, e := range w.History("a") {
				if e.Kind == journal.StepLogged {
					n++
				}
			}
			return n
		}
		for _, want := range []struct {
			after          time.Duration
			lines, entries int
		}{{0, 200, 2}, {2 * time.Second, 250, 3}, {time.Hour, 251, 4}} {
			world.Pause(t.Context(), want.after)
			lines := len(read(t, w.Engine, steplog.Query{}))
			if lines != want.lines || entries() != want.entries {
				t.Errorf("%d lines in %d entries, want %v", lines, entries(), want)
			}
		}
		w.End()
	})
}

// spec: B-24
func TestLinesAreBoundedAndALastOneSaysHowManyAreMissing(t *testing.T) {
	line := strings.Repeat("x", 400)
	chatty := perdure.Define("chatty", func(ctx context.Context, _ int) (int, error) {
		for i := range 2 {
			if _, err := perdure.Step(ctx, fmt.Sprint("s", i), func(ctx context.Context) (int,
				error) {
				n, _, err := perdure.Attempt(ctx)
				for range 5 {
					quiet.InfoContext(ctx, line)
				}
				quiet.InfoContext(ctx, "short")
				if n == 1 {
					return 0, errDown
				}
				return 0, err
			}, perdure.Retry{Attempts: 2, First: time.Second, Factor: 1}); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}, steplog.Keep{Attempt: 1500, Run: 4700})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, chatty)
		world.StartAndSettle(w, chatty, 0, perdure.ID("a"))
		w.Crash()
		world.Pause(t.Context(), time.Hour)
		lines, err := steplog.Read(t.Context(), w.Current(), "a", steplog.Query{})
		world.NoError(t, err)
		var got []string
		for _, l := range lines {
			what := "line"
			if l.Omitted > 0 {
				what = fmt.Sprintf("%d omitted, %q", l.Omitted, l.Message)
			}
			got = append(got, fmt.Sprintf("%s %d %s", l.Step, l.Attempt, what))
		}
		last := func(n int) string {
			return fmt.Sprintf("%d omitted, \"%d more lines were left out\"", n, n)
		}
		var want []string
		for _, p := range []struct {
			of string
			n  int
		}{{"s0 1 ", 3}, {"s0 2 ", 3}, {"s1 1 ", 3}, {"s1 2 ", 0}} {
			for range p.n {
				want = append(want, p.of+"line")
			}
			want = append(want, p.of+last(6-p.n))
		}
		same(t, "lines", got, want)
		w.End()
	})
}

// However an attempt ends, its lines are kept: it times out, it is cancelled with its run, its run
// is suspended, its engine stops.
//
// spec: B-24
func TestTheLinesOfAnAttemptThatIsGivenUpAreKept(t *testing.T) {
	hang := func(ctx context.Context) (int, error) {
		quiet.InfoContext(ctx, "I hang")
		world.Pause(ctx, 100*time.Hour)
		world.Pause(context.WithoutCancel(ctx), time.Second)
		quiet.InfoContext(ctx, "too late")
		return 0, ctx.Err()
	}
	for name, c := range map[string]struct {
		opts []perdure.StepOption
		end  func(t *testing.T, w *world.World)
	}{
		"times out":      {[]perdure.StepOption{perdure.Timeout(time.Millisecond)}, nil},
		"is not awaited": {nil, nil},
		"is cancelled": {nil, func(t *testing.T, w *world.World) {
			world.NoError(t, w.Engine.Cancel(t.Context(), "a", "enough"))
		}},
		"is suspended": {nil, func(t *testing.T, w *world.World) {
			world.NoError(t, w.Engine.Suspend(t.Context(), "a", "enough"))
		}},
		"is terminated at most once": {
			[]perdure.StepOption{effect.AtMostOnce}, func(t *testing.T, w *world.World) {
				world.NoError(t, w.Engine.Cancel(t.Context(), "a", "enough"))
			},
		},
		"stops": {nil, func(_ *testing.T, w *world.World) { w.End(); w.Begin() }},
	} {
		t.Run(name, func(t *testing.T) {
			def := perdure.Define("def", func(ctx context.Context, _ int) (int, error) {
				if name == "is not awaited" {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
					defer cancel()
				}
				return perdure.Step(ctx, "s", hang, append(c.opts, steplog.Keep{})...)
			})
			synctest.Test(t, func(t *testing.T) {
				w := world.With(t, perdure.Options{Drain: -1}, def)
				world.StartAndSettle(w, def, 0, perdure.ID("a"))
				time.Sleep(500 * time.Millisecond)
				if c.end != nil {
					c.end(t, w)
				}
				world.Pause(t.Context(), 2*time.Second) // a suspended run lets its steps go on
				got := read(t, w.Current(), steplog.Query{Attempt: 1})
				want := []string{"s 1 INFO I hang"}
				if name == "stops" { // another engine makes the attempt again
					want = append(want, want[0])
				}
				same(t, "lines", got, want)
				w.End()
				world.Pause(t.Context(), 2*time.Second) // the bodies return
			})
		})
	}
}

// The lines of a process that has died are kept as far as they were recorded, and those of the
// next execution of the attempt follow.
//
// spec: B-24
func TestTheLinesOfAProcessThatDiedAreKept(t *testing.T) {
	calls := 0
	def := perdure.Define("def", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
			calls++
			quiet.InfoContext(ctx, fmt.Sprint("early ", calls))
			if calls == 1 {
				world.Pause(ctx, time.Minute)
				quiet.InfoContext(ctx, "lost")
				world.Pause(ctx, time.Hour)
			}
			return 0, nil
		}, steplog.Keep{})
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, def)
		world.StartAndSettle(w, def, 0, perdure.ID("a"))
		world.Pause(t.Context(), time.Minute)
		synctest.Wait()
		w.Crash()
		synctest.Wait()
		same(t, "lines", read(t, w.Current(), steplog.Query{}),
			[]string{"s 1 INFO early 1", "s 1 INFO early 2"})
		w.End()
	})
}

// Wherever a crash comes, the attempt whose result counts has its lines once, at the end.
//
// spec: B-24
func TestLinesAreNotRepeatedWhereverACrashComes(t *testing.T) {
	def := perdure.Define("pay", pay, steplog.Keep{})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		run := perduretest.Start(env, def, 0, perdure.ID("a"))
		run.Returns(2)
		var got []string
		if err := env.Do(func(e *perdure.Engine) error {
			lines, err := steplog.Read(env.Context(), e, "a", steplog.Query{})
			got = shown(lines)
			return err
		}); err != nil {
			env.Errorf("%v", err)
		}
		for _, line := range paid {
			if n := strings.Count(strings.Join(got, "\n"), line); n < 1 || n > 2 {
				env.Errorf("%d times %q in %q", n, line, got)
			}
		}
		if last := got[len(got)-1]; last != paid[3] {
			env.Errorf("the last line is %q", last)
		}
		return nil
	}, def)
}
