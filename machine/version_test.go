package machine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/perduretest"
)

// version is a machine whose first step waits an hour, and whose second step is that of a version.
func version(n int, older ...*machine.Machine[int]) *machine.Machine[int] {
	m := machine.New[int]("m", "a")
	if n > 0 {
		m.Version(n, older...)
	}
	machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
		if done, _, err := machine.State[bool](ctx); err != nil || !done {
			return machine.Sleep(time.Hour).Keep(true), err
		}
		return machine.Complete(in), nil
	}).To("b")
	machine.Add(m, "b", plus(n))
	return m
}

// spec
func TestARunStaysOnTheVersionThatItBeganWith(t *testing.T) {
	v0, v1 := version(0), version(1)
	v1.Version(1, v0)
	v2 := version(2, v1, v0)
	perduretest.Test(t, func(env *perduretest.Env) {
		first := perduretest.Start(env, v0.Workflow, 100)
		env.Sleep(time.Minute)
		env.Deploy(v1)
		second := perduretest.Start(env, v1.Workflow, 100)
		env.Sleep(time.Minute)
		env.Deploy(v2)
		third := perduretest.Start(env, v2.Workflow, 100)
		env.Sleep(time.Minute)
		var got admin.Versions
		if err := env.Do(func(eng *perdure.Engine) (err error) {
			got, err = admin.New(eng).Versions(env.Context(), "m")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", got)
		first.Returns([]byte("100"))
		second.Returns([]byte("101"))
		third.Returns([]byte("102"))
	}, v0)
}

// spec: R-38
func TestARunOfAVersionThatIsGoneIsSuspendedUntilItIsBack(t *testing.T) {
	v1 := version(1)
	v2 := version(2)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, v1.Workflow, 100, perdure.ID("x"))
		env.Sleep(time.Minute)
		env.Deploy(v2)
		env.Sleep(2 * time.Hour)
		run.Is(journal.Suspended)
		env.Deploy(version(2, v1))
		act(env, "x", admin.Order{Action: journal.ActionResume})
		run.Returns([]byte("101"))
	}, v1)
}

// spec
func TestASuccessorBeginsWithTheNewestVersionUnlessAskedOtherwise(t *testing.T) {
	for same, want := range map[bool]string{false: "2", true: "1"} {
		make := func(n int, older ...*machine.Machine[int]) *machine.Machine[int] {
			m := machine.New[int]("m", "a").Version(n, older...)
			machine.Add(m, "a", func(ctx context.Context, in int) (machine.Action, error) {
				if in > 0 {
					return machine.Complete(n), nil
				}
				if done, _, err := machine.State[bool](ctx); err != nil || !done {
					return machine.Sleep(time.Hour).Keep(true), err
				}
				a := machine.ContinueAsNew(1)
				if same {
					a = a.SameVersion()
				}
				return a, nil
			})
			return m
		}
		v1 := make(1)
		v2 := make(2, v1)
		perduretest.Test(t, func(env *perduretest.Env) {
			run := perduretest.Start(env, v1.Workflow, 0)
			env.Sleep(time.Minute)
			env.Deploy(v2)
			run.Returns([]byte(want))
		}, v1)
	}
}

// spec
func TestVersionsThatDoNotFitAreRefused(t *testing.T) {
	other := machine.New[int]("other", "a").Version(1)
	machine.Add(other, "a", plus(1))
	for _, m := range []*machine.Machine[int]{
		version(2, other), version(1, version(1)), version(3, version(1), version(1)),
		version(2, nil),
	} {
		found := false
		for _, i := range perdure.Check(m) {
			found = found || strings.HasPrefix(i.Where, "version") && i.Code == machine.IssueVersion
		}
		if !found {
			t.Errorf("%v", perdure.Check(m))
		}
	}
}

// The first call of a run leaves nothing in the journal until it returns. It may have had an effect
// all the same, so the run stays on the version without a number.
//
// spec: R-38
func TestARunWhoseFirstCallWasCutOffStaysOnItsVersion(t *testing.T) {
	slow := func(n int, older ...*machine.Machine[int]) *machine.Machine[int] {
		m := machine.New[int]("m", "a")
		if n > 0 {
			m.Version(n, older...)
		}
		machine.Add(m, "a", machine.Do(func(_ context.Context, in int) (int, error) {
			time.Sleep(time.Hour)
			return in + n, nil
		}))
		return m
	}
	v0 := slow(0)
	v1 := slow(1, v0)
	for name, c := range map[string]struct {
		first *machine.Machine[int]
		then  []*machine.Machine[int]
		want  string
	}{
		"under versions that come later": {
			v0, []*machine.Machine[int]{v1, slow(2, v1, v0)}, "100",
		},
		"unless the program does not have that": {v0, []*machine.Machine[int]{slow(1)}, "101"},
	} {
		t.Run(name, func(t *testing.T) {
			perduretest.Test(t, func(env *perduretest.Env) {
				run := perduretest.Start(env, c.first.Workflow, 100)
				env.Sleep(time.Minute)
				env.Crash()
				for _, m := range c.then {
					env.Deploy(m)
					env.Sleep(time.Minute)
				}
				run.Returns([]byte(c.want))
			}, c.first)
		})
	}
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		run := perduretest.Start(env, v1.Workflow, 100, perdure.ID("x"))
		run.Returns([]byte("101")) // also if an engine dies before the number is recorded
		return nil
	}, v1)
}
