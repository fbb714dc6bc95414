package dag

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/pattern"
)

// A Gate is a signal or timer that a step waits for before it begins.
type Gate struct {
	signal string
	timer  string
	after  time.Duration
}

// Signal returns a gate that opens when the run has a signal of this name, also one that was sent
// before. The payload becomes the variable signal.NAME: as base64 if it is not JSON, and null if it
// is empty.
func Signal(name string) Gate { return Gate{signal: name} }

// Timer returns a gate that opens after a time, or when the timer is cancelled from outside
// ([perdure.Client.CancelTimer], with the path gate:STEP/NAME).
func Timer(name string, after time.Duration) Gate { return Gate{timer: name, after: after} }

// A gateKind is the way gates are waited for. The gates of a step are passed in the order of these
// kinds.
type gateKind int

const (
	forSignal gateKind = iota
	forTimer
	forAll
	forAny
)

// String returns the word for the kind.
func (k gateKind) String() string { return [...]string{"signal", "timer", "all", "any"}[k] }

// A gate is a condition that a step waits for at one time: one gate, all of several or any of
// several.
type gate struct {
	kind   gateKind
	of     []Gate
	within time.Duration // 0 means without limit
}

// WaitSignal makes the step wait for a signal first. Zero within means without limit. If the signal
// does not come in time, the step fails.
func (s *Step[A, R]) WaitSignal(name string, within time.Duration) *Step[A, R] {
	s.s.wait(gate{forSignal, []Gate{Signal(name)}, within})
	return s
}

// WaitTimer makes the step wait for a time, after its signal if it waits for a signal.
func (s *Step[A, R]) WaitTimer(name string, after time.Duration) *Step[A, R] {
	s.s.wait(gate{kind: forTimer, of: []Gate{Timer(name, after)}})
	return s
}

// WaitAll makes the step wait for all of the gates, after its signal and timer. Zero within means
// without limit.
func (s *Step[A, R]) WaitAll(within time.Duration, gates ...Gate) *Step[A, R] {
	s.s.wait(gate{forAll, gates, within})
	return s
}

// WaitAny makes the step wait for one of the gates, after its signal and timer. Zero within means
// without limit. A step waits for all or for any, not both. If several signals are there already,
// the step takes the signal that is named first and leaves the others. If several signals come
// later at the same time, the step may take more than one.
func (s *Step[A, R]) WaitAny(within time.Duration, gates ...Gate) *Step[A, R] {
	s.s.wait(gate{forAny, gates, within})
	return s
}

func (s *step) wait(g gate) { s.gates = append(s.gates, g) }

// checkGates reports the defects of the gates of a step.
func (s *step) checkGates() {
	kinds := map[gateKind]bool{}
	for _, g := range s.gates {
		kinds[g.kind] = true
		if len(g.of) == 0 {
			s.complain("wait", "it waits for nothing")
		}
		for _, one := range g.of {
			one.check(s)
		}
	}
	if kinds[forAll] && kinds[forAny] {
		s.complain("wait", "it waits for all and for any")
	}
}

func (g Gate) check(s *step) {
	switch {
	case g.signal == "" && g.timer == "":
		s.complain("wait", "a signal or timer needs a name")
		return
	case strings.HasPrefix(g.signal, "perdure:"):
		s.complain("wait", "signal %q is reserved: choose a name that does not begin with perdure:",
			g.signal)
	case g.signal == "Cancel", g.signal == "CancelWorkflow":
		s.complain("wait", "signal %q is not valid: it cancels the run, and no wait gets it; "+
			"choose another name", g.signal)
	case g.signal != "":
		s.checkName("wait", "signal", g.signal, variableOf(""))
	default:
		s.checkName("wait", "timer", g.timer, "")
	}
	if g.after < 0 {
		s.note(definition.SeverityWarning, "wait", "timer %s is %v", g.timer, g.after)
	}
}

// variableOf returns the name of the variable that has the payload of a signal.
func variableOf(signal string) string { return "signal." + signal }

// pass waits for the gates of a step, in a branch of its own.
func (s *step) pass(ctx context.Context) (json.RawMessage, error) {
	for _, g := range s.gates {
		open, err := g.open(ctx)
		if err != nil {
			return nil, err
		}
		if !open {
			return nil, errLate
		}
	}
	return nil, nil
}

var errLate = &perdure.Error{
	Code: perdure.CodeTimedOut, Op: "gate", Message: "what the step waits for did not come in time",
}

// open waits until a gate is open. It returns false if the time limit passes first.
func (g gate) open(ctx context.Context) (bool, error) {
	if g.kind == forSignal {
		return g.of[0].signalled(ctx, g.within)
	}
	if g.kind == forAny {
		if open, err := g.there(ctx); open || err != nil {
			return open, err
		}
	}
	w, err := g.begin(ctx)
	if err != nil {
		return false, err
	}
	defer w.set.Close()
	need := len(g.of)
	if g.kind == forAny {
		need = min(need, 1)
	}
	for len(w.open) > len(g.of)-need {
		f, err := w.set.Next()
		if err != nil {
			return false, err
		}
		if f == pattern.Awaitable(w.late) {
			return false, w.end(ctx)
		}
		if err := w.opened(ctx, f); err != nil {
			return false, err
		}
	}
	return true, w.end(ctx)
}

// signalled waits for one signal.
func (g Gate) signalled(ctx context.Context, within time.Duration) (bool, error) {
	var opts []perdure.WaitOption
	if within > 0 {
		opts = append(opts, perdure.Within(within))
	}
	payload, err := perdure.NewSignal[json.RawMessage](g.signal).Wait(ctx, opts...)
	switch {
	case err == nil:
		return true, g.keep(ctx, payload)
	case pattern.EndedBy(ctx) == nil && errors.Is(err, &perdure.Error{Code: perdure.CodeTimedOut}):
		return false, nil
	}
	return false, err
}

// there takes the first of the signals that is there already, so that no other signal is taken with
// it.
func (g gate) there(ctx context.Context) (bool, error) {
	for _, one := range g.of {
		if one.signal == "" {
			continue
		}
		has, err := perdure.NewSignal[json.RawMessage](one.signal).Has(ctx)
		if err != nil {
			return false, err
		}
		if has {
			return one.signalled(ctx, 0)
		}
	}
	return false, nil
}

// keep stores the payload of a signal as a variable.
func (g Gate) keep(ctx context.Context, payload json.RawMessage) error {
	switch {
	case len(payload) == 0:
		return perdure.SetVariable(ctx, variableOf(g.signal), nil)
	case !json.Valid(payload):
		return perdure.SetVariable(ctx, variableOf(g.signal), []byte(payload))
	}
	return perdure.SetVariable(ctx, variableOf(g.signal), payload)
}

// A wait is a gate with several signals and timers, while a step waits for it.
type wait struct {
	set  *pattern.Set
	open map[pattern.Awaitable]Gate // not opened yet
	all  []pattern.Awaitable        // in the order of their start
	late *perdure.Future[time.Time] // nil if there is no limit
}

// begin begins to wait.
func (g gate) begin(ctx context.Context) (*wait, error) {
	set, err := pattern.NewSet(ctx)
	if err != nil {
		return nil, err
	}
	w := &wait{set: set, open: map[pattern.Awaitable]Gate{}}
	for _, one := range g.of {
		var f pattern.Awaitable
		if one.signal != "" {
			f = perdure.NewSignal[json.RawMessage](one.signal).Future(ctx)
		} else {
			f = perdure.Timer(ctx, one.timer, one.after)
		}
		w.open[f] = one
		w.all = append(w.all, f)
		if err := set.Add(f); err != nil {
			return nil, err
		}
	}
	if g.within > 0 {
		w.late = perdure.Timer(ctx, "perdure:late", g.within)
		return w, set.Add(w.late)
	}
	return w, nil
}

// opened takes in a signal that has come, or a timer that has ended or was cancelled.
func (w *wait) opened(ctx context.Context, f pattern.Awaitable) error {
	g := w.open[f]
	delete(w.open, f)
	signal, is := f.(*perdure.Future[json.RawMessage])
	if !is {
		return pattern.EndedBy(ctx)
	}
	payload, err := signal.Await(ctx)
	if err != nil {
		return err
	}
	return g.keep(ctx, payload)
}

// end cancels the signals and timers that have not come. A signal that was taken nevertheless is
// kept, as the signals before it.
func (w *wait) end(ctx context.Context) error {
	for _, f := range w.all {
		if _, waits := w.open[f]; !waits {
			continue
		}
		cancelled, err := cancel(ctx, f)
		if err != nil {
			return err
		}
		if !cancelled {
			if err := w.opened(ctx, f); err != nil {
				return err
			}
		}
	}
	if w.late == nil {
		return nil
	}
	_, err := cancel(ctx, w.late)
	return err
}

func cancel(ctx context.Context, f pattern.Awaitable) (bool, error) {
	return f.(interface {
		Cancel(ctx context.Context, reason string) (bool, error)
	}).Cancel(ctx, "the step waits no more")
}
