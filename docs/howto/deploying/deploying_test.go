package howto

import (
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

// deployed begins a run with the first code, deploys the next one, and sends the payment.
func deployed(t *testing.T, next *perdure.Workflow[string, string],
	then func(*perduretest.Env, *perduretest.Run[string]),
) {
	t.Helper()
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, First, "ord-1")
		run.Waits("paid")
		env.Deploy(next)
		perduretest.Send(env, Paid, run.ID(), 4200)
		then(env, run)
	}, First)
}

func TestAnOpenRunGoesOnWithTheNewCode(t *testing.T) {
	for _, c := range []struct {
		next *perdure.Workflow[string, string]
		has  map[string]int
	}{
		{Longer, map[string]int{"reserve": 1, "ship": 1, "thank": 1}},
		{Renamed, map[string]int{"reserve": 1, "hold": 0, "ship": 1}},
		{Checked, map[string]int{"reserve": 1, "check-address": 1, "ship": 1}},
		{Versioned, map[string]int{"reserve": 1, "ship": 1}},
	} {
		deployed(t, c.next, func(env *perduretest.Env, run *perduretest.Run[string]) {
			run.Returns("ord-1 is shipped")
			for name, n := range c.has {
				env.Step(name).Executed(n)
			}
		})
	}
}

func TestAChangeThatIsNotDeclaredSuspendsTheRun(t *testing.T) {
	deployed(t, Unsaid, func(env *perduretest.Env, run *perduretest.Run[string]) {
		run.Is(journal.Suspended)
		d, err := env.Engine().Describe(env.Context(), run.ID())
		if err != nil || !strings.Contains(d.Why, "check-address") {
			t.Error(d.Why, err)
		}
		t.Log(d.Why)
		env.Step("check-address").Executed(0)

		env.Deploy(Checked) // with the option Added
		if err := env.Engine().Resume(env.Context(), run.ID()); err != nil {
			t.Fatal(err)
		}
		run.Returns("ord-1 is shipped")
	})
}

func TestTheReplayOfARecordedRunShowsTheChange(t *testing.T) {
	var history []byte
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, First, "ord-1")
		run.Waits("paid")
		var err error
		history, err = perduretest.Export(env.Context(), env.Engine().Client, run.ID())
		if err != nil {
			t.Fatal(err)
		}
	}, First)
	perduretest.Replay(t, history, Renamed).Fits()
	perduretest.Replay(t, history, Unsaid).Fits("new check-address")
}

func TestOldCodeCanGoWhenNoOpenRunNeedsIt(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Versioned, "ord-1")
		run.Waits("paid")
		versions, err := admin.New(env.Engine()).Versions(env.Context(), "order")
		if m := versions.Markers; err != nil || len(m) != 2 || !m[0].MayGo || m[1].MayGo {
			t.Error(m, err)
		}
		run.Cancel("the test ends")
	}, Versioned)
}
