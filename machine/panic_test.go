package machine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/perduretest"
)

// An explosive is a value that panics when it is encoded or decoded.
type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error)  { panic("encode") }
func (*explosive) UnmarshalJSON(b []byte) error { panic("decode") }

// An explosiveError is an error that panics when it is read.
type explosiveError struct{ error }

func (explosiveError) Error() string { panic("read") }

// No panic of a function of the author's ends the engine, or leaves a run that does nothing.
//
// spec
func TestAPanicInAnyHookEndsOnlyItsRun(t *testing.T) {
	boom, failed := explosive{}, journal.Failed
	does := func(a machine.Action) func(*machine.Machine[int]) {
		return func(m *machine.Machine[int]) { machine.Add(m, "a", returns(a)).To("b").Split("b") }
	}
	for name, c := range map[string]struct {
		build func(*machine.Machine[int])
		want  journal.Status
	}{
		"a step": {func(m *machine.Machine[int]) {
			machine.Add(m, "a", func(context.Context, int) (machine.Action, error) { panic("a") })
		}, failed},
		"an error": {func(m *machine.Machine[int]) {
			machine.Add(m, "a", func(context.Context, int) (machine.Action, error) {
				return machine.Action{}, explosiveError{errors.New("no")}
			})
		}, failed},
		"the reason of a Retry": {
			does(machine.Retry(perdure.NoRetry, explosiveError{})), failed,
		},
		"an output":             {does(machine.Complete(boom)), failed},
		"a state of Yield":      {does(machine.Yield(boom)), failed},
		"a state of Sleep":      {does(machine.Sleep(time.Hour).Keep(boom)), failed},
		"the data of Fail":      {does(machine.Fail("no", boom)), failed},
		"the input of a branch": {does(machine.Split(machine.BranchOf("x", "b", boom))), failed},
		"the input of a child": {
			does(machine.StartChild(machine.ChildNamed("kid", "k", boom))), failed,
		},
		"the input of a successor": {does(machine.ContinueAsNew(boom)), failed},
		"an event":                 {does(machine.Complete(1).Emit("e", boom)), failed},
		"the data of the input": {func(m *machine.Machine[int]) {
			machine.Add(m, "a", func(context.Context, explosive) (machine.Action, error) {
				return machine.Complete(1), nil
			})
		}, failed},
		"a compensation": {func(m *machine.Machine[int]) {
			machine.Add(m, "a", plus(1)).To("b").
				Undo(func(context.Context, int) error { panic("undo") }).UndoRetry(perdure.NoRetry)
		}, journal.CompensationFailed},
		"a route": {func(m *machine.Machine[int]) {
			machine.Add(m, "a", plus(1)).To("b").
				Route(func(machine.Result) string { panic("route") })
		}, failed},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine.New[int]("m", "a")
			c.build(m)
			machine.Add(m, "b", returns(machine.Fail("no", nil)))
			perduretest.Test(t, func(env *perduretest.Env) {
				run := perduretest.Start(env, m.Workflow, 1)
				env.Sleep(time.Minute)
				run.Is(c.want)
				perduretest.Start(env, kid, 2).Returns(4)
			}, m, kid)
		})
	}
}
