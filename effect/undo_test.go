package effect_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/effect"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
)

var (
	errBad = errors.New("bad")
	_      = perdure.RegisterError("effect_test.bad", errBad)
)

// A shelf has the effects of steps, in the order in which they took place.
type shelf struct {
	mu    sync.Mutex
	keys  map[string]bool // of steps and of compensations
	there []string
	wrong []string
	// without crashes, the order in which bodies return is that of the journal
	strict bool
	broken map[string]bool // compensations that fail
}

func newShelf() *shelf { return &shelf{keys: map[string]bool{}, broken: map[string]bool{}} }

func (d *shelf) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.keys)
	d.there, d.wrong = nil, nil
}

// pause waits, or returns the error of the context.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *shelf) apply(ctx context.Context, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if key := perdure.IdempotencyKey(ctx); !d.keys[key] {
		d.keys[key] = true
		d.there = append(d.there, id)
	}
}

// undo removes an effect. Under one key it does so once.
func (d *shelf) undo(ctx context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := perdure.IdempotencyKey(ctx)
	switch {
	case d.broken[id]:
		return errBad
	case d.keys[key]:
		return nil
	}
	d.keys[key] = true
	at := slices.Index(d.there, id)
	if at < 0 {
		d.wrong = append(d.wrong, "undone is what is not there: "+id)
		return nil
	}
	for _, later := range d.there[at+1:] {
		if d.strict && strings.HasPrefix(later, "undoable") && !d.broken[later] {
			d.wrong = append(d.wrong, id+" is undone before "+later)
		}
	}
	d.there = slices.Delete(d.there, at, at+1)
	return nil
}

// An act is an operation of a random program.
type act struct {
	kind   string // step, beside, branch, scope or sleep
	name   string
	key    string
	id     string // "undoable" or "lasting", and a number
	takes  time.Duration
	fails  bool
	caught bool // its error does not end the code around it
	waits  bool // beside and branch: it is awaited
	within []act
}

// play is workflow code that does a list of acts.
func (d *shelf) play(ctx context.Context, acts []act) error {
	for _, a := range acts {
		var err error
		switch a.kind {
		case "sleep":
			err = perdure.Sleep(ctx, a.takes)
		case "scope":
			var in context.Context
			if in, err = perdure.Scope(ctx, a.name); err == nil {
				err = d.play(in, a.within)
			}
		case "branch":
			f := perdure.Go(ctx, a.name, func(ctx context.Context) (int, error) {
				return 0, d.play(ctx, a.within)
			})
			if a.waits {
				_, err = f.Await(ctx)
			}
		case "step":
			_, err = perdure.Step(ctx, a.name, d.body(a), a.options(d)...)
		case "beside":
			f := perdure.Async(ctx, a.name, d.body(a), a.options(d)...)
			if a.waits {
				_, err = f.Await(ctx)
			}
		}
		if err != nil && !a.caught {
			return err
		}
	}
	return nil
}

func (d *shelf) body(a act) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if err := pause(ctx, a.takes); err != nil {
			return "", err
		}
		if a.fails {
			return "", errBad
		}
		d.apply(ctx, a.id)
		return a.id, nil
	}
}

func (a act) options(d *shelf) []perdure.StepOption {
	opts := []perdure.StepOption{perdure.NoRetry}
	if a.key != "" {
		opts = append(opts, perdure.Key(a.key))
	}
	if strings.HasPrefix(a.id, "undoable") {
		opts = append(opts, effect.Undo(func(ctx context.Context, out string) error {
			if out != a.id {
				return fmt.Errorf("it has the result %s, not %s", out, a.id)
			}
			if err := pause(ctx, a.takes/2); err != nil {
				return err
			}
			return d.undo(ctx, out)
		}))
	}
	return opts
}

var kinds = []string{"step", "step", "beside", "beside", "branch", "scope", "sleep"}

// acts returns a random program.
func acts(rng *rand.Rand, depth int, number *int) []act {
	var all []act
	for range 1 + rng.IntN(4) {
		a := act{
			kind:   kinds[rng.IntN(len(kinds))],
			name:   []string{"a", "b", "c"}[rng.IntN(3)],
			takes:  time.Duration(1 + rng.Int64N(int64(time.Second))),
			fails:  rng.IntN(8) == 0,
			caught: rng.IntN(2) == 0,
			waits:  rng.IntN(2) == 0,
		}
		*number++
		if a.id = fmt.Sprint("undoable ", *number); rng.IntN(4) == 0 {
			a.id = fmt.Sprint("lasting ", *number)
		}
		if rng.IntN(3) == 0 {
			a.key = []string{"k", "l"}[rng.IntN(2)]
		}
		if a.kind == "branch" || a.kind == "scope" {
			if depth == 0 {
				continue
			}
			a.within = acts(rng, depth-1, number)
		}
		all = append(all, a)
	}
	return all
}

// judge checks a run that has ended, by its journal and by what is left.
func (d *shelf) judge(env *perduretest.Env, id string) {
	env.Helper()
	var entries []journal.Entry
	var r report.Run
	if err := env.Do(func(eng *perdure.Engine) (err error) {
		if entries, err = eng.History(env.Context(), id, 0, 10_000); err == nil {
			r, err = eng.Report(env.Context(), id)
		}
		return err
	}); err != nil {
		env.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	fail := func(format string, args ...any) {
		env.Helper()
		env.Errorf(format, args...)
		for _, e := range entries {
			env.Log(e.Seq, e.Kind, e.Op, e.Status)
		}
	}
	if len(d.wrong) > 0 {
		fail("%q", d.wrong)
	}
	a := journal.NewAggregate("", "", "", 0)
	var done []string    // paths of what has completed and could be undone, the last first
	var results []string // of these steps
	facts := 0
	for _, e := range entries {
		if err := a.Apply(e); err != nil {
			env.Fatal(err)
		}
		switch {
		case e.Kind == journal.StepCompleted && e.Detail != nil && e.Detail.Undo:
			done = slices.Insert(done, 0, a.Path(e.Op))
			results = append(results, string(e.Data))
		case e.Kind == journal.CompensationStarted, e.Kind == journal.CleanupPlanned:
			facts++
		}
	}
	if r.Success() {
		if facts > 0 || r.Undo != nil {
			fail("a run that has succeeded was undone")
		}
		return
	}
	var undone, left []string
	if r.Undo != nil {
		for _, u := range r.Undo.Steps {
			undone = append(undone, u.ID)
			want := report.StepIsCompensated
			if s, _ := r.Step(u.ID); !u.Undone {
				want = report.StepIsCompensationFailed
				left = append(left, string(s.Result))
			}
			if s, _ := r.Step(u.ID); s.Status != want {
				fail("%s is %v, not %v", u.ID, s.Status, want)
			}
		}
	}
	if !slices.Equal(undone, done) {
		fail("undone are %q, not %q", undone, done)
	}
	for _, id := range d.there {
		// a body whose result was lost in a crash has not completed
		if id = `"` + id + `"`; slices.Contains(results, id) && !slices.Contains(left, id) {
			fail("%s is left", id)
		}
	}
	if len(done) > 0 && facts != 2 || len(done) == 0 && facts > 0 {
		fail("%d entries begin a rollback of %d steps", facts, len(done))
	}
}

// cancelled cancels a run, unless it has ended or is about to.
func cancelled(env *perduretest.Env, id string) {
	env.Helper()
	err := env.Do(func(eng *perdure.Engine) error {
		return eng.Cancel(env.Context(), id, "enough")
	})
	if err != nil && !errors.Is(err, &perdure.Error{Code: journal.CodeWrongState}) {
		env.Error(err)
	}
}

// A program is a random program, and the way in which a run of it may end.
type program struct {
	*shelf
	acts    []act
	cancel  time.Duration // when it is cancelled; 0 for never
	options []perdure.WorkflowOption
	bad     bool // its code fails if nothing else does
}

func programOf(seed uint64) *program {
	rng := rand.New(rand.NewPCG(seed, 1))
	p, number := &program{shelf: newShelf()}, 0
	p.acts = acts(rng, 2, &number)
	for i := range number {
		if rng.IntN(8) == 0 {
			p.broken[fmt.Sprint("undoable ", i+1)] = true
		}
	}
	p.bad = rng.IntN(2) == 0
	switch rng.IntN(3) {
	case 0:
		p.cancel = time.Duration(1 + rng.Int64N(int64(4*time.Second)))
	case 1:
		p.options = append(p.options, perdure.Timeout(1+rng.Int64N(int64(4*time.Second))))
	}
	return p
}

func (p *program) workflow() *perdure.Workflow[int, int] {
	return perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		err := p.play(ctx, p.acts)
		if err == nil && p.bad {
			err = errBad
		}
		return 0, err
	}, p.options...)
}

// runs does one run, and returns its report.
func (p *program) runs(env *perduretest.Env, def *perdure.Workflow[int, int]) report.Run {
	env.Helper()
	run := perduretest.Start(env, def, 0)
	if p.cancel > 0 {
		env.Sleep(p.cancel)
		cancelled(env, run.ID())
	}
	_, err := run.Result()
	env.Settle()
	r := run.Report()
	p.judge(env, run.ID())
	if r.Success() != (err == nil) || r.Status == perdure.StatusFailed && !errors.Is(err, errBad) {
		env.Errorf("it is %v, %v", r.Status, err)
	}
	return r
}

// spec: B-25
func TestWhateverEndsARunItIsUndoneInTheOrderOfTheJournal(t *testing.T) {
	count := map[perdure.RunStatus]int{}
	undone := 0
	for seed := range uint64(400) {
		p := programOf(seed)
		p.strict = true
		def := p.workflow()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			perduretest.Test(t, func(env *perduretest.Env) {
				r := p.runs(env, def)
				count[r.Status]++
				if r.Undo != nil {
					undone += len(r.Undo.Steps)
				}
			}, def)
		})
	}
	if len(count) != 4 || undone < 100 {
		t.Errorf("the runs ended as %v, and %d steps were undone", count, undone)
	}
}

// spec: B-25
func TestARollbackBearsACrashAnywhere(t *testing.T) {
	for seed := range uint64(60) {
		p := programOf(seed)
		def := p.workflow()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				p.reset()
				p.runs(env, def)
				return nil
			}, def)
		})
	}
}
