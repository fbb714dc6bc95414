package observers

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/store/memory"
)

// A logged collects the lines of a log.
type logged struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// byDefault makes slog.Default write to a log during the test.
func byDefault(t *testing.T) *logged {
	l, was := &logged{}, slog.Default()
	slog.SetDefault(l.logger())
	t.Cleanup(func() { slog.SetDefault(was) })
	return l
}

// misbehaving is a workflow that fails in the way that its input names.
var misbehaving = perdure.Define("misbehaving", func(ctx context.Context, how string) (int, error) {
	for range 2 {
		if _, err := perdure.Step(ctx, "fine", world.Work("", 0, nil)); err != nil {
			return 0, err
		}
	}
	switch how {
	case "park":
		return 0, perdure.Parking(world.ErrOdd)
	case "panic":
		if time.Now().Before(time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC)) {
			panic("of workflow code")
		}
	case "panic in a step":
		return perdure.Step(ctx, "boom", func(context.Context) (int, error) { panic("of a body") })
	case "fail":
		return 0, world.ErrOdd
	case "late":
		_, err := perdure.Step(ctx, "slow", func(context.Context) (int, error) {
			time.Sleep(time.Hour)
			return 0, nil
		}, perdure.Timeout(time.Second), perdure.NoRetry)
		return 0, errors.Join(err, perdure.Sleep(ctx, 2*time.Hour))
	}
	return 0, nil
}, deadletter.Automatic(true), pattern.Declared(func() (definition.Outline, []definition.Issue) {
	return definition.Outline{}, []definition.Issue{
		{Severity: definition.SeverityWarning, Message: "hmm"},
		{Severity: definition.SeverityInfo, Message: "aha"},
	}
}))

// unattended writes no dead letters.
var unattended = perdure.Define("unattended", func(ctx context.Context, how string) (int, error) {
	if how == "fails" {
		return 0, world.ErrOdd
	}
	return 0, perdure.Sleep(ctx, 2*time.Hour)
}, perdure.Timeout(time.Hour))

// misbehave runs the workflow in each way, with those options.
func misbehave(t *testing.T, o perdure.Options) {
	synctest.Test(t, func(t *testing.T) {
		eng, err := perdure.New(memory.New(), o)
		if err == nil {
			err = eng.Register(misbehaving, unattended)
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- eng.Run(ctx) }()
		for _, how := range []string{"fine", "park", "panic", "panic in a step", "fail", "late"} {
			if _, err := misbehaving.Start(ctx, eng, how,
				perdure.ID(strings.ReplaceAll(how, " ", "-"))); err != nil {
				t.Error(err)
			}
		}
		for _, how := range []string{"fails", "is-slow", "is-cancelled"} {
			if _, err := unattended.Start(ctx, eng, how, perdure.ID(how)); err != nil {
				t.Error(err)
			}
		}
		if err := eng.Cancel(ctx, "is-cancelled", ""); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Hour)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// By default the log has warnings, errors of code and runs that ended badly, and nothing else.
func TestWhatGoesWrongIsLoggedByDefault(t *testing.T) {
	log := byDefault(t)
	misbehave(t, perdure.Options{})
	for _, want := range []string{
		`msg="perdure: definition advised" workflow=misbehaving reason="WARNING: hmm"`,
		`msg="perdure: run parked" workflow=misbehaving workflow_id=park `,
		`msg="perdure: run retrying" workflow=misbehaving workflow_id=panic `,
		`msg="perdure: step failed" workflow=misbehaving workflow_id=panic-in-a-step `,
		`msg="perdure: run dead-lettered" workflow=misbehaving workflow_id=fail `,
		`msg="perdure: run ended" workflow=unattended workflow_id=fails `,
		`msg="perdure: run ended" workflow=unattended workflow_id=is-slow `,
		`msg="perdure: step abandoned" workflow=misbehaving workflow_id=late `,
		`msg="perdure: late result" workflow=misbehaving workflow_id=late `,
	} {
		if !strings.Contains(log.String(), "level=WARN "+want) {
			t.Error("not logged:", want)
		}
	}
	for _, no := range []string{"aha", "workflow_id=fine", "level=INFO", "run started",
		`"perdure: run ended" workflow=misbehaving`, // its dead letter is logged already
		"workflow_id=is-cancelled",
	} {
		if strings.Contains(log.String(), no) {
			t.Errorf("%s is logged", no)
		}
	}
	if t.Failed() {
		t.Log(log)
	}
}

// Another logger gets what the default logger would get, and a discarding one switches off all
// output.
//
// spec: P-15
func TestAnotherLogTakesWhatGoesWrong(t *testing.T) {
	log, own := byDefault(t), &logged{}
	misbehave(t, perdure.Options{Logger: own.logger()})
	if !strings.Contains(own.String(), "run parked") {
		t.Error("the log has", own)
	}
	misbehave(t, perdure.Options{Logger: slog.New(slog.DiscardHandler)})
	if log.String() != "" {
		t.Error("the default log has", log)
	}
}

// A call that waits for an engine that nobody runs is logged, and its error has the hint.
func TestAStartBeforeRunIsLogged(t *testing.T) {
	log := &logged{}
	synctest.Test(t, func(t *testing.T) {
		eng, err := perdure.New(memory.New(), perdure.Options{Logger: log.logger()})
		if err == nil {
			err = eng.Register(misbehaving, unattended)
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 900*time.Millisecond)
		defer cancel()
		_, err = misbehaving.Start(ctx, eng, "fine")
		if hint := "call Engine.Run"; journal.CodeOf(err) != journal.CodeStopped ||
			!strings.Contains(err.Error(), hint) {
			t.Errorf("%v, want the hint %q", err, hint)
		}
		time.Sleep(time.Hour)
		if strings.Contains(log.String(), "not running") {
			t.Error("a call that did not wait is logged:", log)
		}
		started := make(chan error, 1)
		go func() {
			_, err := misbehaving.Start(context.Background(), eng, "fine")
			started <- err
		}()
		time.Sleep(time.Minute)
		want :=
			`level=WARN msg="perdure: engine not running" reason="start misbehaving waits: call Engine.Run`
		if n := strings.Count(log.String(), want); n != 1 {
			t.Errorf("logged %d times: %s", n, log)
		}
		running, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- eng.Run(running) }()
		if err := <-started; err != nil {
			t.Error(err)
		}
		stop()
		<-done
	})
}

// spec: P-7, P-8
func TestAReplayLogsNothingAgainThatIsInTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logged{}
		nod := perdure.NewSignal[int]("nod")
		wf := perdure.Define("order", func(ctx context.Context, _ int) (int, error) {
			_, _ = perdure.Step(ctx, "pay", func(ctx context.Context) (int, error) {
				return 0, world.ErrOdd
			}, perdure.Retry{First: time.Second, Attempts: 2})
			if err := perdure.Sleep(ctx, time.Minute); err != nil {
				return 0, err
			}
			for range 2 {
				if _, err := nod.Wait(ctx); err != nil {
					return 0, err
				}
			}
			return 0, perdure.Permanent(world.ErrOdd)
		})
		w := world.With(t, perdure.Options{
			Observers:   []observe.Observer{observe.Log(log.logger(), slog.LevelInfo)},
			IdleTimeout: time.Hour,
		}, wf)
		defer func() { w.End() }()
		world.Start(w, wf, 0, perdure.ID("order-7"))
		for range 2 {
			time.Sleep(2 * time.Minute)
			if _, err := nod.Send(t.Context(), w.Engine, "order-7", 1); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			w.Crash()
			time.Sleep(2 * time.Minute)
		}
		lines := map[string]int{}
		for line := range strings.Lines(log.String()) {
			_, line, _ = strings.Cut(line, `msg="perdure: `)
			what, line, _ := strings.Cut(line, `"`)
			for _, field := range strings.Fields(line) {
				name, _, _ := strings.Cut(field, "=")
				if name == "step" || name == "attempt" || name == "signal" || name == "timer" {
					what += " " + field
				}
			}
			lines[what]++
			for _, has := range []string{"workflow=order ", "workflow_id=order-7 ", "run_id="} {
				if !strings.Contains(line, has) {
					t.Errorf("no %q in %q", has, line)
				}
			}
		}
		want := map[string]int{
			"run started": 1, "step retrying step=pay attempt=1": 1,
			"step failed step=pay attempt=2": 1, "timer fired timer=sleep": 1,
			"signal delivered signal=nod": 2, "run ended": 1,
		}
		if !maps.Equal(lines, want) {
			t.Errorf("logged %v, want %v\n%s", lines, want, log)
		}
	})
}
