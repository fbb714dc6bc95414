package dag

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
)

// A Gate is a signal or timer that a step waits for before it begins.
type Gate struct {
	signal string
	timer  string
	after  time.Duration
}

// Signal is a gate that a signal of this name opens; one that was sent before does too.
// Its payload becomes the variable signal.NAME.
func Signal(name string) Gate { return Gate{signal: name} }

// Timer is a gate that opens after a while, and when the timer is cancelled from outside
// ([perdure.Client.CancelTimer], by the path gate:STEP/NAME).
func Timer(name string, after time.Duration) Gate { return Gate{timer: name, after: after} }

// A gate is what a step waits for at one time: one, all or any of several.
type gate struct {
	of     []Gate
	any    bool
	within time.Duration // 0 for ever
}

// gateKind says in which order the gates of a step are.
func (g gate) kind() int {
	switch {
	case len(g.of) == 1 && g.of[0].signal != "" && !g.any:
		return 0
	case len(g.of) == 1 && !g.any:
		return 1
	}
	return 2
}

// WaitSignal has the step wait for a signal first, for ever where within is 0. A step
// whose signal does not come in time fails.
func (s *Step[A, R]) WaitSignal(name string, within time.Duration) *Step[A, R] {
	return s.wait(gate{of: []Gate{Signal(name)}, within: s.s.warn("signal", within)})
}

// WaitTimer has the step wait for a time, after its signal if it waits for one.
func (s *Step[A, R]) WaitTimer(name string, after time.Duration) *Step[A, R] {
	return s.wait(gate{of: []Gate{Timer(name, max(after, 0))}})
}

// WaitAll has the step wait for all of the gates, after its signal and timer; for ever
// where within is 0.
func (s *Step[A, R]) WaitAll(within time.Duration, gates ...Gate) *Step[A, R] {
	return s.wait(gate{of: gates, within: s.s.warn("wait-all", within)})
}

// WaitAny has the step wait for one of the gates, after its signal and timer; for ever
// where within is 0. A step waits for all or for any, not both.
func (s *Step[A, R]) WaitAny(within time.Duration, gates ...Gate) *Step[A, R] {
	return s.wait(gate{of: gates, any: true, within: s.s.warn("wait-any", within)})
}

func (s *Step[A, R]) wait(g gate) *Step[A, R] {
	s.s.gates = append(s.s.gates, g)
	return s
}

// checkGates says what is wrong with the gates of a step.
func (s *step) checkGates() (issues []perdure.Issue) {
	complain := func(message string) {
		issues = append(issues, perdure.Issue{Severity: perdure.IssueError, Where: s.id + ".wait", Message: message})
	}
	all, anyOf := false, false
	for _, g := range s.gates {
		if len(g.of) == 0 {
			complain("it waits for nothing")
		}
		if g.kind() == 2 || len(g.of) == 0 {
			all, anyOf = all || !g.any, anyOf || g.any
		}
		for _, one := range g.of {
			if name := one.signal + one.timer; !perdure.ValidName(name) {
				complain("this cannot be the name of a signal or timer: " + name)
			}
		}
	}
	if all && anyOf {
		complain("it waits for all and for any")
	}
	return issues
}

// pass waits for the gates of a step, in the branch of the step.
func (s *step) pass(ctx context.Context) error {
	for _, g := range s.gates {
		if err := g.pass(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pass waits for one gate.
func (g gate) pass(ctx context.Context) error {
	set, err := perdure.NewSet(ctx)
	if err != nil {
		return err
	}
	defer set.Close()
	var opening []canceller
	open := map[perdure.Awaitable]Gate{}
	for _, one := range g.of {
		f, cancel := one.begin(ctx)
		open[f] = one
		opening = append(opening, cancel)
		if err := set.Add(f); err != nil {
			return err
		}
	}
	var late *perdure.Future[time.Time]
	if g.within > 0 {
		late = perdure.Timer(ctx, "late", g.within)
		opening = append(opening, late)
		if err := set.Add(late); err != nil {
			return err
		}
	}
	for left := len(g.of); left > 0; left-- {
		f, err := set.Next()
		if err != nil {
			return err
		}
		if f == perdure.Awaitable(late) {
			return errLate
		}
		if err := open[f].opened(ctx, f); err != nil {
			return err
		}
		if g.any {
			break
		}
	}
	for _, f := range opening {
		if _, err := f.Cancel(ctx, "the step has begun"); err != nil {
			return err
		}
	}
	return nil
}

var errLate = &perdure.Error{Code: perdure.CodeTimedOut, Op: "gate", Message: "what the step waits for did not come in time"}

type canceller interface {
	Cancel(ctx context.Context, reason string) (bool, error)
}

// begin begins to wait.
func (g Gate) begin(ctx context.Context) (perdure.Awaitable, canceller) {
	if g.signal != "" {
		f := perdure.NewSignal[json.RawMessage](g.signal).Future(ctx)
		return f, f
	}
	f := perdure.Timer(ctx, g.timer, g.after)
	return f, f
}

// opened takes in what has opened a gate.
func (g Gate) opened(ctx context.Context, f perdure.Awaitable) error {
	signal, is := f.(*perdure.Future[json.RawMessage])
	if !is {
		return nil // a timer that was cancelled opens too
	}
	payload, err := signal.Await(ctx)
	if err != nil {
		return err
	}
	return perdure.SetVariable(ctx, "signal."+g.signal, payload)
}
