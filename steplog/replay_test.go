package steplog_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/steplog"
)

// A paper has what is logged.
type paper struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *paper) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(line)
}

func (p *paper) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Split(strings.TrimSuffix(p.text.String(), "\n"), "\n")
}

var goAhead = perdure.NewSignal[int]("go")

var nap = perdure.Define("nap", func(ctx context.Context, _ int) (int, error) {
	return 3, perdure.Sleep(ctx, time.Minute)
})

// tells is a workflow whose code logs between its operations and in a branch.
func tells(log *slog.Logger) *perdure.Workflow[int, int] {
	return perdure.Define("tells", func(ctx context.Context, _ int) (int, error) {
		step := func(ctx context.Context, name string) error {
			_, err := perdure.Step(ctx, name, func(ctx context.Context) (int, error) {
				log.InfoContext(ctx, "does")
				return 1, nil
			})
			log.InfoContext(ctx, name+" is done")
			return err
		}
		log.InfoContext(ctx, "begins")
		if err := step(ctx, "a"); err != nil {
			return 0, err
		}
		branch := perdure.Go(ctx, "branch", func(ctx context.Context) (int, error) {
			log.InfoContext(ctx, "branch begins")
			err := perdure.Sleep(ctx, time.Hour)
			log.InfoContext(ctx, "branch has slept")
			return 2, err
		})
		n, err := goAhead.Wait(ctx)
		log.InfoContext(ctx, "signal", "n", n)
		if err != nil {
			return 0, err
		}
		if _, err := branch.Await(ctx); err != nil {
			return 0, err
		}
		log.InfoContext(ctx, "branch is over")
		tried := perdure.Async(ctx, "tried", func(ctx context.Context) (int, error) {
			if n, _, _ := perdure.Attempt(ctx); n < 3 {
				return 0, errDown
			}
			return 1, nil
		}, perdure.Retry{Attempts: 3, First: time.Minute, Factor: 1})
		child := nap.Child(ctx, 0)
		log.InfoContext(ctx, "two begin")
		if _, err := child.Await(ctx); err != nil {
			return 0, err
		}
		log.InfoContext(ctx, "child is over")
		if _, err := tried.Await(ctx); err != nil {
			return 0, err
		}
		log.InfoContext(ctx, "third try is over")
		return n, step(ctx, "b")
	})
}

var told = []string{
	`begins run_id=R workflow=tells`,
	`does run_id=R workflow=tells step=a attempt=1`,
	`"a is done" run_id=R workflow=tells`,
	`"branch begins" run_id=R workflow=tells`,
	`signal n=7 run_id=R workflow=tells`,
	`"branch has slept" run_id=R workflow=tells`,
	`"branch is over" run_id=R workflow=tells`,
	`"two begin" run_id=R workflow=tells`,
	`"child is over" run_id=R workflow=tells`,
	`"third try is over" run_id=R workflow=tells`,
	`does run_id=R workflow=tells step=b attempt=1`,
	`"b is done" run_id=R workflow=tells`,
}

func journalist() (*paper, *slog.Logger) {
	p := &paper{}
	bare := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}
	text := slog.NewTextHandler(p, &slog.HandlerOptions{ReplaceAttr: bare})
	return p, slog.New(steplog.Handler(text))
}

// A run that is loaded again, when it has waited and when the engine has been stopped, logs no line
// of its code again. Each line has the run.
//
// spec: P-8
func TestCodeThatIsReplayedLogsNothingAgain(t *testing.T) {
	world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		p, log := journalist()
		def := tells(log)
		w := world.With(t, o, def, nap)
		run := world.StartAndSettle(w, def, 0, perdure.ID("one"))
		again := func() {
			w.End()
			w.DB = w.DB.Reopen()
			w.Begin()
			world.Pause(t.Context(), time.Minute)
			synctest.Wait()
		}
		again()
		again()
		_, err := goAhead.Send(t.Context(), w.Engine, "one", 7)
		world.NoError(t, err)
		synctest.Wait()
		again()
		world.Pause(t.Context(), time.Hour)
		synctest.Wait()
		again()
		again()
		again()
		var want []string
		for _, line := range told {
			want = append(want, "msg="+strings.Replace(line, "=R", "="+run.RunID(), 1))
		}
		same(t, "lines", p.lines(), want)
		w.End()
	})
}

// Wherever a crash comes, no line is lost, and only the last ones before it are logged again.
//
// spec: P-8
func TestNoLineIsLostWhereverACrashComes(t *testing.T) {
	p, log := journalist()
	def := tells(log)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		p.mu.Lock()
		p.text.Reset()
		p.mu.Unlock()
		run := perduretest.Start(env, def, 0, perdure.ID("one"))
		perduretest.Send(env, goAhead, "one", 7)
		run.Returns(7)
		all, twice := strings.Join(p.lines(), "\n"), 0
		for _, line := range told {
			text, _, _ := strings.Cut(line, " run_id")
			n := strings.Count(all, "msg="+text)
			if strings.HasPrefix(line, "does") {
				_, step, _ := strings.Cut(line, "step=")
				n = strings.Count(all, "step="+step)
			}
			if n == 0 {
				env.Errorf("%s is lost in\n%s", line, all)
			}
			twice += max(n-1, 0)
		}
		if twice > 5 {
			env.Errorf("%d lines too many in\n%s", twice, all)
		}
		return nil
	}, def, nap)
}

// Code that panics is called again. What it logs after the place of the panic is new.
//
// spec: P-8
func TestCodeThatPanickedLogsWhatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, log := journalist()
		calls := 0
		def := perdure.Define("def", func(ctx context.Context, _ int) (int, error) {
			_, err := perdure.Step(ctx, "a", func(context.Context) (int, error) { return 1, nil })
			log.InfoContext(ctx, "before")
			if calls++; calls == 1 {
				panic("boom")
			}
			log.InfoContext(ctx, "after")
			return 1, err
		})
		w := world.New(t, def)
		world.StartAndSettle(w, def, 0, perdure.ID("one"))
		world.Pause(t.Context(), time.Hour)
		got := strings.Join(p.lines(), "\n")
		if calls != 2 || strings.Count(got, "before") != 2 || strings.Count(got, "after") != 1 {
			t.Errorf("%d calls: %s", calls, got)
		}
		w.End()
	})
}
