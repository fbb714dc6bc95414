package demo

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

// here carries calls to a world in this process.
type here struct{ *world }

func (h here) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	h.handle(answer, r)
	return answer.Result(), nil
}

// clientHere gives a client of a world in this process.
func clientHere(w *world) *client { return &client{web: http.Client{Transport: here{w}}} }

// asks gives what a world was asked for, without repetitions, and each thing as
// often as it had the effect.
func asks(t testing.TB, w *world) []string {
	t.Helper()
	calls, err := ReadLedger(w.ledger.path)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range effects(calls) {
		all = append(all, c.step())
	}
	return all
}

func expectAsks(t *testing.T, w *world, want ...string) {
	t.Helper()
	if got := asks(t, w); !slices.Equal(got, want) {
		t.Errorf("it was asked for %q, want %q", got, want)
	}
}

func TestSilenceIsANo(t *testing.T) {
	w := testWorld(t, worldSetup{})
	wf := approval(clientHere(w))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, wf, Expense{By: "ada"})
		env.Sleep(timeToDecide - time.Second)
		run.Waits(journal.WaitSignal, "approve")
		expectAsks(t, w, "mail manager")
		env.Crash()
		env.Sleep(time.Second)
		run.Returns(Decision{By: "nobody"})
		expectAsks(t, w, "mail manager", "mail ada")
	}, wf)
}

func TestADecisionIsToldToWhoAsked(t *testing.T) {
	w := testWorld(t, worldSetup{})
	wf := approval(clientHere(w))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, wf, Expense{By: "ada"})
		perduretest.Send(env, approve, run.ID(), Decision{By: "bob", OK: true})
		run.Returns(Decision{By: "bob", OK: true})
		expectAsks(t, w, "mail manager", "mail ada")
	}, wf)
}

func TestASubscriptionIsBilledMonthByMonth(t *testing.T) {
	w := testWorld(t, worldSetup{})
	wf := subscription(clientHere(w))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, wf, Subscription{Mail: "bob"})
		env.Sleep(month - time.Second)
		run.Waits(journal.WaitTimer, "trial")
		expectAsks(t, w, "mail bob")
		env.Sleep(month)
		env.Crash()
		run.Waits(journal.WaitTimer, "month")
		expectAsks(t, w, "mail bob", "bill month-1")
		env.Sleep(month)
		expectAsks(t, w, "mail bob", "bill month-1", "bill month-2")
		run.Cancel("enough")
		run.Is(journal.Cancelled)
	}, wf)
}

// TestMoneyOnItsWayStaysThere: where nobody knows who has the money, an operator looks.
func TestMoneyOnItsWayStaysThere(t *testing.T) {
	w := testWorld(t, worldSetup{Accounts: []Account{{Name: "ada", Cents: 10}, {Name: "bob"}}})
	wf := transfer(clientHere(w))
	perduretest.Test(t, func(env *perduretest.Env) {
		lost := errors.New("no answer")
		env.Step("confirm:to").Fail(patience.Attempts, lost)
		run := perduretest.Start(env, wf.Workflow, Transfer{From: "ada", To: "bob", Cents: 5})
		env.Sleep(time.Hour)
		run.Is(journal.Suspended)
		expectAsks(t, w, "try:from", "try:to", "confirm:from")
		decide := func(e *perdure.Engine) error {
			return e.Decide(env.Context(), run.ID(), "confirm:to", perdure.Decision{Choice: "retry"})
		}
		if err := env.Do(decide); err != nil {
			t.Error(err)
		}
		env.Sleep(time.Hour)
		run.Is(journal.Confirmed)
		expectAsks(t, w, "try:from", "try:to", "confirm:from", "confirm:to")
	}, wf)
}

// TestEachJobBearsCrashes: the calls that a plan foretells are made under one key
// each, wherever a crash comes.
func TestEachJobBearsCrashes(t *testing.T) {
	p, err := NewPlan(1, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range p.Jobs {
		t.Run(j.ID, func(t *testing.T) {
			c := &client{}
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				w := testWorld(env, worldSetup{Stock: p.Stock, Refused: p.Refused, Accounts: p.Accounts})
				c.web.Transport = here{w}
				err := env.Do(func(e *perdure.Engine) error {
					_, err := e.Start(env.Context(), j.Workflow, j.Input, perdure.ID(j.ID))
					return err
				})
				if err != nil {
					env.Error(err)
				}
				env.Sleep(time.Hour)
				var want []string
				for _, target := range j.Calls {
					want = append(want, target.step())
				}
				got := asks(env, w)
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					env.Errorf("it was asked for %q, want %q", got, want)
				}
				return fmt.Sprint(got)
			}, workflows(c)...)
		})
	}
}
