package main

import (
	"io"
	"log"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/examples/approval/expense"
	"github.com/perdure/perdure/examples/internal/terminal"
	"github.com/perdure/perdure/perduretest"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	terminal.Main(m, main)
}

var taxi = expense.Expense{By: "ada", For: "a taxi", Cents: 4200}

// begin empties the outside world.
func begin() { outside.done, outside.log, outside.busy = map[string]bool{}, nil, false }

func TestAnApprovedExpenseIsPaidOnce(t *testing.T) {
	begin()
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Approve, taxi)
		env.Sleep(3 * time.Hour)
		run.Published("waiting-for", "manager")
		perduretest.Send(env, expense.Answered, run.ID(), expense.Answer{
			By: "manager", Approved: true,
		})
		run.Returns("approved by manager")
		run.Executed("pay", 2) // the bank does not answer at first
	}, Approve)
	want := []string{
		"mail to manager: please decide: ada spent 4200 cents for a taxi",
		"pay 4200 cents to ada",
		"mail to ada: paid",
	}
	if !slices.Equal(outside.log, want) {
		t.Errorf("outside: %q", outside.log)
	}
}

func TestWhoDoesNotAnswerIsRemindedAndThenTheNextOneUpIsAsked(t *testing.T) {
	begin()
	perduretest.Test(t, func(env *perduretest.Env) {
		began := time.Now()
		run := perduretest.Start(env, Approve, taxi)
		run.WaitsUntil(began.Add(expense.Day))
		env.Sleep(expense.Day)
		run.WaitsUntil(began.Add(3 * expense.Day))
		run.Published("waiting-for", "manager")
		env.Sleep(2 * expense.Day)
		run.WaitsUntil(began.Add(7 * expense.Day))
		run.Published("waiting-for", "director")
		perduretest.Send(env, expense.Answered, run.ID(), expense.Answer{
			By: "director", Why: "walk",
		})
		run.Returns("refused by director: walk")
		run.Executed("ask", 3)
		run.Executed("pay", 0)
	}, Approve)
}

func TestNobodyAnswersForAWeek(t *testing.T) {
	begin()
	perduretest.Test(t, func(env *perduretest.Env) {
		began := time.Now()
		run := perduretest.Start(env, Approve, taxi)
		run.Returns("refused by nobody: no answer in a week")
		if took := time.Since(began); took != 7*expense.Day {
			t.Errorf("it took %v", took)
		}
	}, Approve)
}

func TestAnswersThatDoNotCountAreLeftAlone(t *testing.T) {
	begin()
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Approve, taxi)
		// by the person who wants the money
		perduretest.Send(env, expense.Answered, run.ID(), expense.Answer{By: "ada", Approved: true})
		// by a person who was not asked yet
		perduretest.Send(env, expense.Answered, run.ID(), expense.Answer{
			By: "director", Approved: true,
		})
		env.Settle()
		run.Waits("answer")
		perduretest.Send(env, expense.Answered, run.ID(), expense.Answer{
			By: "manager", Why: "no receipt",
		}, perdure.SendKey("click"))
		if d := perduretest.Send(env, expense.Answered, run.ID(), expense.Answer{
			By: "manager", Why: "no receipt",
		}, perdure.SendKey("click")); !d.Duplicate {
			t.Error("a second click counts")
		}
		run.Returns("refused by manager: no receipt")
		run.Unread("answer", "answer")

		late := expense.Answer{By: "manager", Approved: true}
		if d, err := expense.Answered.Send(env.Context(), env.Engine(), run.RunID(),
			late); err != nil || !d.NotDelivered {
			t.Errorf("a late answer to the run gives %+v, %v", d, err)
		}
		if d := perduretest.Send(env, expense.Answered, run.ID(), late); !d.Unrouted {
			t.Errorf("a late answer by the ID gives %+v", d)
		}
		run.Returns("refused by manager: no receipt")
	}, Approve)
}

func TestApprovalsBearCrashesEverywhere(t *testing.T) {
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		begin()
		run := perduretest.Start(env, Approve, taxi)
		env.Sleep(4 * expense.Day)
		perduretest.Send(env, expense.Answered, run.ID(), expense.Answer{
			By: "director", Approved: true,
		})
		run.Returns("approved by director")
		return outside.log
	}, Approve)
}

func TestAnAnswerIsTakenThoughNothingRanWhenItWasSent(t *testing.T) {
	at := terminal.Open(t)
	kill := at.Serve()
	at.Run("start", "expense-approval", "--id", "exp-1", "-i",
		`{"by":"ada","for":"a train","cents":9900}`)
	at.Until(func() bool { return strings.Contains(at.Run("runs", "get", "exp-1"), "WAITING") })
	kill()
	at.Run("runs", "signal", "exp-1", "answer", "-i", `{"by":"manager","why":"walk"}`)
	at.Serve()
	if out := at.Run("runs", "wait", "exp-1"); !strings.Contains(out, "refused by manager: walk") {
		t.Errorf("it ended with %s", out)
	}
}
