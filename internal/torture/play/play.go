// Package play runs programs as workflows: it interprets a program with the verbs of package
// perdure, and declares the workflows that programs name.
package play

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/job"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/schedule"
)

// A Call is a call of a step to the outside world.
type Call struct {
	Label string    // the effect
	Key   string    // the idempotency key
	Run   string    // the run ID
	Step  string    // its path
	Owner int64     // the engine that executes it
	Tries int       // the attempt
	Began time.Time // when the body began
	// What the code has seen before: an effect, and the number that the world returned for it.
	After  string
	Number int64
}

// A World is the outside. It records every call.
type World interface {
	// Call takes effect and returns a number that no other call gets.
	Call(ctx context.Context, c Call) (int64, error)
	// Mended reports whether an operator has mended what a label stands for.
	Mended(ctx context.Context, label string) (bool, error)
}

// An Input is the input of a run of a program.
type Input struct {
	Instance string // the workflow ID of the whole program
	ID       string // that of the run
	Round    int
	Program  *program.Program
	Mended   bool // an operator has mended the input
}

// An Output is the output of such a run.
type Output struct {
	Facts   []string
	Numbers map[string]int64 // the numbers that the world returned, by label
}

// An Env has what programs are played with.
type Env struct {
	world World
	money perdure.Transactions[*sql.Tx] // on the store's database; nil where steps have none
	db    *sql.DB                       // the same database

	code     *perdure.Workflow[Input, Output]
	brief    *perdure.Workflow[string, string]
	failing  *perdure.Workflow[string, string] // fails when it has done its step
	fleeting *perdure.Workflow[string, string] // its runs have a retention of zero
	narrow   *perdure.Workflow[Narrow, int64]  // its runs are limited
	tick     *perdure.Workflow[string, time.Time]
	declared map[string]perdure.Definition
	start    map[string]starter[Deeds]
	parts    *parts

	mu   sync.Mutex
	eng  perdure.Caller
	once map[string]bool // actions of listeners that happen once in a process
	// mails is the number of those that were to be sent.
	mails int
}

// New makes the workflows. Without transactions, programs have no steps in any.
func New(w World, money perdure.Transactions[*sql.Tx], db *sql.DB) *Env {
	out := &Env{world: w, money: money, db: db, once: map[string]bool{}}
	out.code = perdure.Define("program", out.run,
		brisk,
		perdure.Replays{Attempts: 1000, First: time.Millisecond, Factor: 1},
		perdure.Retention{Period: -1}, deadletter.Automatic(true))
	out.brief = perdure.Define("brief", func(ctx context.Context, label string) (string, error) {
		return label, perdure.Do(ctx, "do", func(ctx context.Context) error {
			_, err := out.call(ctx, label, "", 0)
			return err
		})
	}, perdure.Retention{Period: -1})
	out.failing = perdure.Define(Fails, func(ctx context.Context, label string) (string,
		error) {
		_, err := perdure.Step(ctx, "do", out.effect(label))
		return label, errors.Join(err, perdure.Permanent(ErrMeant))
	}, perdure.Retention{Period: -1})
	out.fleeting = job.Define("fleeting", func(_ context.Context, label string) (string, error) {
		return label, nil
	}, job.Spec{}, perdure.Retention{Period: time.Millisecond})
	out.narrow, out.tick = out.defineNarrow(), out.defineTick()
	out.declare()
	return out
}

// Use sets the engine that plays the programs now. Steps start runs through it.
func (e *Env) Use(c perdure.Caller) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.eng = c
}

func (e *Env) caller() perdure.Caller {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.eng
}

// Definitions returns the workflows that an engine must have.
func (e *Env) Definitions() []perdure.Definition {
	out := []perdure.Definition{
		e.code, e.brief, e.failing, e.fleeting, e.narrow, e.tick, schedule.Workflow(),
		batch.Workflow(), alert.Workflow(alert.Options{Mail: e}),
	}
	out = append(append(out, e.defineMerged()...), e.defineCounted()...)
	out = append(out, defineEvents()...)
	for _, name := range slices.Sorted(maps.Keys(e.declared)) {
		out = append(out, e.declared[name])
	}
	return out
}

// Workflow returns the workflow of programs.
func (e *Env) Workflow() *perdure.Workflow[Input, Output] { return e.code }

// first reports whether something happens for the first time in this process.
func (e *Env) first(what string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.once[what]
	e.once[what] = true
	return !was
}

// A player is one execution of a program's code.
type player struct {
	*Env
	in      Input
	facts   []string
	numbers map[string]int64
	shared  map[int]int
}

func (e *Env) run(ctx context.Context, in Input) (Output, error) {
	p := &player{Env: e, in: in, numbers: map[string]int64{}, shared: map[int]int{}}
	defer p.leave(ctx)
	if err := p.plan(ctx); err != nil {
		return Output{}, err
	}
	if err := (asks{p}).begin(ctx); err != nil {
		return Output{}, err
	}
	if err := p.block(ctx, in.Program.Body); err != nil {
		return Output{}, err
	}
	slices.Sort(p.facts)
	out := Output{p.facts, p.numbers}
	if in.Round < in.Program.Rounds {
		in.Round++
		return out, perdure.ContinueAsNew(ctx, in)
	}
	switch in.Program.End {
	case "fails":
		return out, perdure.Fail(ctx, ErrMeant)
	case "errs":
		return out, fmt.Errorf("as it should: %w", ErrMeant)
	case "cancels":
		return out, perdure.Cancel(ctx, "by itself")
	case "ends":
		return out, pattern.End(ctx, perdure.StatusCompensated, out, nil)
	}
	return out, nil
}

// leave frees the resources of the player when the run leaves memory.
func (p *player) leave(ctx context.Context) {
	if pattern.Leaving(ctx) {
		p.facts, p.numbers, p.shared = nil, nil, nil
	}
}

// plan plans the clean-up.
func (p *player) plan(ctx context.Context) error {
	if p.in.ID != p.in.Instance {
		return nil
	}
	clean := func(ctx context.Context) error {
		if _, err := pattern.EndingAs(ctx); err != nil {
			return err
		}
		_ = pattern.EndingBy(ctx)
		if _, err := pattern.Undoes(ctx); err != nil {
			return err
		}
		_, did, err := p.live(ctx, "clean", program.Label(p.in.Instance, 0, p.in.Round, "clean"))
		if did && p.in.Program.Clean == "odd" {
			odd("clean-up")
		}
		return err
	}
	switch p.in.Program.Clean {
	case "finally", "odd":
		return perdure.Finally(ctx, "clean", clean)
	case "cancel":
		return perdure.OnCancel(ctx, "clean", clean)
	}
	return nil
}

// block does operations one after the other.
func (p *player) block(ctx context.Context, b program.Block) error {
	for _, op := range b {
		if err := plays[op.Kind](p, ctx, op); err != nil {
			return fmt.Errorf("%s: %w", op.Name(), err)
		}
	}
	return nil
}

var plays map[program.Kind]func(*player, context.Context, *program.Op) error

func init() {
	plays = map[program.Kind]func(*player, context.Context, *program.Op) error{
		program.Step: (*player).step, program.Loop: (*player).loop, program.Async: (*player).async,
		program.Tx:       (*player).tx,
		program.Branches: (*player).branches, program.Shared: (*player).sharedCount,
		program.Blocked: (*player).blocked,
		program.Nap:     (*player).nap, program.Wait: (*player).wait, program.Gather: (*player).
					gather,
		program.Child: (*player).child,
		program.Park:  (*player).park, program.Read: (*player).read, program.State: (*player).state,
		program.Scope: (*player).scope,
		program.Part:  (*player).part, program.Walk: (*player).walk, program.Code: (*player).code,
		program.Broken: (*player).broken, program.Held: (*player).held,
		program.Callback: (*player).callback,
		program.Update: func(p *player, ctx context.Context, op *program.Op) error {
			return asks{p}.update(ctx, op)
		},
		program.Approval: func(p *player, ctx context.Context, op *program.Op) error {
			return asks{p}.approval(ctx, op)
		},
	}
}

func (p *player) fact(op *program.Op, format string, args ...any) {
	p.facts = append(p.facts, op.Name()+" "+fmt.Sprintf(format, args...))
}

func (p *player) label(op *program.Op, what string) string {
	return program.Label(p.in.Instance, op.ID, p.in.Round, what)
}

// did records the number of an effect.
func (p *player) did(label string, n int64) { p.numbers[label] = n }

// effect returns the body of a step that calls the world.
func (e *Env) effect(label string) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) { return e.call(ctx, label, "", 0) }
}

// call calls the world at the beginning of the body of a step.
func (e *Env) call(ctx context.Context, label, after string, number int64) (int64, error) {
	return e.callIn(ctx, time.Now(), label, after, number)
}

// callIn calls the world in the body of a step that began at that time. The body may have waited
// since, and its attempt may have been given up meanwhile.
func (e *Env) callIn(
	ctx context.Context, began time.Time, label, after string, number int64,
) (int64, error) {
	s, ok := perdure.StepOf(ctx)
	if !ok {
		return 0, errors.New("this is no step")
	}
	return e.world.Call(ctx, Call{
		Label: label, Key: perdure.IdempotencyKey(ctx), Run: string(s.Run.ID), Step: s.Step,
		Owner: int64(s.Run.Owner), Tries: s.Attempt,
		Began: began, After: after, Number: number,
	})
}

// after returns one effect that the code has seen: the one with the greatest label, so that it is
// the same on replay.
func (p *player) after() (string, int64) {
	if len(p.numbers) == 0 {
		return "", 0
	}
	label := slices.Max(slices.Collect(maps.Keys(p.numbers)))
	return label, p.numbers[label]
}
