package tcc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/tcc"
)

// A stage is the outside world of the participants of a plot.
type stage struct {
	plot
	env *perduretest.Env

	mu    sync.Mutex
	lines []line
	keys  map[string]string // the use of an idempotency key
	calls map[string]bool   // callbacks
	wrong []string
}

// A line is an attempt that was executed at least once.
type line struct {
	phase, id string
	n         int // its number among all attempts of the phase
}

func (s *stage) complain(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// define makes the TCC of a plot.
func (s *stage) define() *tcc.TCC[int] {
	limit := perdure.Timeout(1000 * time.Hour)
	if s.ends == "timeout" {
		limit = perdure.Timeout(time.Hour)
	}
	t := tcc.New[int]("plot", limit).Retry(perdure.Retry{Attempts: attempts, First: time.Second})
	for _, one := range s.parts {
		p := tcc.Add(t, one.id, func(ctx context.Context, in int) (string, error) {
			return fmt.Sprint(one.id, in), s.act(ctx, "try", one)
		}).Order(one.order)
		p.Confirm(func(ctx context.Context, in int, tried string) error {
			return s.then(ctx, "confirm", one, in, tried)
		})
		p.Cancel(func(ctx context.Context, in int, tried string) error {
			return s.then(ctx, "cancel", one, in, tried)
		})
		if one.optional {
			p.Optional()
		}
	}
	if len(s.decisions) > 0 {
		t.Park()
	}
	t.On(pattern.Callback{Step: func(_ context.Context, step string) error {
		return s.called("step " + step)
	}})
	t.On(pattern.Callback{Failure: func(_ context.Context, err error) (bool, error) {
		return s.suppress, s.called("failure " + err.Error())
	}})
	return t
}

func (s *stage) called(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[what] = true
	return nil
}

// then is the body of a phase after the try. It gets the result of the try; empty if nobody knows
// whether the try happened.
func (s *stage) then(ctx context.Context, phase string, one part, in int, tried string) error {
	want := fmt.Sprint(one.id, in)
	if s.ends != "" && s.when == "try:"+one.id {
		want = ""
	}
	err := s.act(ctx, phase, one)
	s.mu.Lock()
	defer s.mu.Unlock()
	if tried != want || in != 7 {
		s.complain("%s:%s got %q, want %q", phase, one.id, tried, want)
	}
	return err
}

// act is the body of a phase: it notes its attempt, and fails if the plot wants that.
func (s *stage) act(ctx context.Context, phase string, one part) error {
	info, _ := perdure.StepOf(ctx)
	n := info.Attempt
	if _, occ, found := strings.Cut(info.Step, "#"); found {
		k := 0
		fmt.Sscan(occ, &k) // there is a decision between two of the same name
		n += k / 2 * attempts
	}
	s.decided(info, phase)
	s.mu.Lock()
	what := phase + ":" + one.id
	key := perdure.IdempotencyKey(ctx)
	if was, known := s.keys[key]; known && was != what {
		s.complain("the key of %s is that of %s", what, was)
	}
	for k, of := range s.keys {
		if of == what && k != key {
			s.complain("%s has two keys: %s and %s", what, k, key)
		}
	}
	s.keys[key] = what
	if l := (line{phase, one.id, n}); !slices.Contains(s.lines, l) {
		s.lines = append(s.lines, l)
	}
	s.mu.Unlock()
	if info.Of != one.id || info.Phase.Of(one.id) != what {
		s.complain("%s is %s in phase %s", what, info.Of, info.Phase)
	}
	if s.ends != "" && s.when == what {
		if err := s.told(ctx, string(info.Run.ID), phase == "try"); err != nil {
			return err
		}
	}
	if n <= one.fails[phase] {
		return fmt.Errorf("odd %s", what)
	}
	return nil
}

// decided checks that the decision is durable before a phase after the try begins.
func (s *stage) decided(info perdure.StepInfo, phase string) {
	status := map[string]journal.Status{
		"confirm": journal.Confirming,
		"cancel":  journal.Canceling,
	}[phase]
	h, err := s.env.Engine().History(context.Background(), string(info.Run.ID), 0, 0)
	if err == nil && status != 0 && !slices.ContainsFunc(h, func(e journal.Entry) bool {
		return e.Status == status
	}) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.complain("%s begins, and %v is not durable", info.Step, status)
	}
}

// told cancels the run, or lets it time out, in the body of a participant.
func (s *stage) told(ctx context.Context, id string, trying bool) error {
	if s.ends == "timeout" {
		select {
		case <-time.After(2 * time.Hour):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := s.env.Engine().Cancel(context.Background(), id, "enough")
	s.mu.Lock()
	wrong := errors.Is(err, &perdure.Error{Code: journal.CodeWrongState})
	if wrong == trying && !stopped(err) && ctx.Err() == nil {
		s.complain("told to end in %s, it gives %v", s.when, err)
	}
	s.mu.Unlock()
	if trying {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

// stopped reports whether err comes from an engine that has died.
func stopped(err error) bool {
	return errors.Is(err, &perdure.Error{Code: journal.CodeStopped}) ||
		errors.Is(err, &perdure.Error{Code: journal.CodeUnavailable})
}

// play plays a plot and returns the outcome.
func (s *stage) play(env *perduretest.Env, t *tcc.TCC[int]) outcome {
	s.env, s.lines, s.keys, s.calls = env, nil, map[string]string{}, map[string]bool{}
	run := perduretest.Start(env, t.Workflow, 7)
	for i := 0; ; i++ {
		env.Sleep(time.Minute)
		d, err := env.Engine().Describe(env.Context(), run.ID())
		if err != nil {
			continue
		}
		if d.Head.Status.IsTerminal() {
			break
		}
		s.decide(d)
		if i > 10_000 {
			env.Fatalf("%+v: it does not end: %v", s.plot, d.Head.Status)
		}
	}
	return s.outcome(run.ID())
}

// decide acts as the operator. If the engine dies meanwhile, the operator looks again later.
func (s *stage) decide(d perdure.Description) {
	for _, w := range d.State.Waits {
		if w.Kind != journal.WaitDecision {
			continue
		}
		if d.Head.Status != journal.Suspended {
			s.complain("it waits for %s, and is %v", w.Path, d.Head.Status)
		}
		if err := s.env.Engine().Cancel(context.Background(), string(d.Head.ID),
			"enough"); !errors.Is(err, &perdure.Error{Code: journal.CodeWrongState}) &&
			!stopped(err) {
			s.complain("told to end while it is SUSPENDED, it gives %v", err)
		}
		name, occ, _ := strings.Cut(w.Path, "#")
		name = name[strings.LastIndexByte(name, '/')+1:]
		k := 0
		fmt.Sscan(occ, &k)
		_ = s.env.Engine().Decide(context.Background(), string(d.Head.ID), name,
			perdure.Decision{Choice: s.decisions[min(k/2, len(s.decisions))-1]})
	}
}

// outcome returns the outcome of the run.
func (s *stage) outcome(id string) outcome {
	env, o := s.env, outcome{}
	var r tcc.Result
	var h []journal.Entry
	if err := env.Do(func(eng *perdure.Engine) (err error) {
		if r.Run, err = eng.Report(env.Context(), id); err == nil {
			h, err = eng.History(env.Context(), id, 0, 0)
		}
		return err
	}); err != nil {
		env.Fatal(err)
	}
	env.Settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	o.Status = r.Status.String()
	if phase, of := r.Failed(); of != "" {
		o.Failed = string(phase) + " " + of
	}
	for text, err := range map[*string]error{&o.Err: r.Err, &o.Suppressed: r.Suppressed} {
		if err != nil {
			*text = err.Error()
		}
	}
	for _, step := range r.Steps {
		o.Steps = append(o.Steps, fmt.Sprintf("%s %s %d", step.ID, step.Status, step.Attempts))
	}
	o.Calls = s.executed()
	for _, e := range h {
		if e.Kind == journal.DeadLettered {
			o.DeadLetters = append(o.DeadLetters, e.Op.Name)
		}
	}
	for what := range s.calls {
		o.Callbacks = append(o.Callbacks, what)
	}
	slices.Sort(o.Callbacks)
	for _, bad := range s.wrong {
		env.Errorf("%+v: %s", s.plot, bad)
	}
	return o
}

// executed returns the bodies that were called: confirms by name, others in order.
func (s *stage) executed() []string {
	var out []string
	from, to := -1, -1
	for i, l := range s.lines {
		out = append(out, fmt.Sprintf("%s:%s %d", l.phase, l.id, l.n))
		if l.phase == "confirm" {
			if to = i + 1; from < 0 {
				from = i
			}
		}
	}
	if from >= 0 {
		slices.Sort(out[from:to])
	}
	return out
}

// played plays a plot, optionally with crashes, and compares the outcome with the model.
func played(t *testing.T, p plot, crashes bool) {
	t.Helper()
	s := &stage{plot: p}
	d := s.define()
	want := p.expect()
	slices.Sort(want.Callbacks)
	scenario := func(env *perduretest.Env) any {
		s.wrong = nil
		got := s.play(env, d)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			env.Errorf("%+v\ngives %+v\nnot   %+v", p, got, want)
		}
		return fmt.Sprint(got)
	}
	if !crashes {
		perduretest.Test(t, func(env *perduretest.Env) { scenario(env) }, d)
		return
	}
	perduretest.CrashEverywhere(t, scenario, d)
}
