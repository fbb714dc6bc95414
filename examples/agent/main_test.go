package main

import (
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/examples/agent/assistant"
	"github.com/perdure/perdure/examples/internal/terminal"
	"github.com/perdure/perdure/perduretest"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	terminal.Main(m, func() {
		pace = 0
		main()
	})
}

// begin makes an empty bill.
func begin(t *testing.T) { bill = filepath.Join(t.TempDir(), "bill.txt") }

// paid returns the lines of the bill, sorted, and the sum of its tokens.
func paid(t *testing.T) (out []string, tokens int) {
	text, err := os.ReadFile(bill)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		out = append(out, strings.Join(words[:len(words)-1], " "))
		if n, err := strconv.Atoi(words[0]); err == nil {
			tokens += n
		}
	}
	slices.Sort(out)
	return out, tokens
}

var question = assistant.Question{Text: "how many teapots?", Budget: 1000}

func TestEachCallIsPaidOnceThoughAnswersAreLost(t *testing.T) {
	begin(t)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Agent, question)
		run.Returns(assistant.Answer{Text: "42 teapots", Spent: 400})
		run.Executed("think", 7) // five turns, two answers lost
	}, Agent, Research)
	want := []string{
		"100 tokens", "120 tokens", "40 tokens", "60 tokens", "80 tokens",
		"mail buy tea", "math 6*7", "search tea", "search teapots",
	}
	if got, tokens := paid(t); !slices.Equal(got, want) || tokens != 400 {
		t.Errorf("paid %q, %d tokens", got, tokens)
	}
}

func TestTheBudgetHolds(t *testing.T) {
	for budget := 120; budget <= 420; budget += 20 {
		begin(t)
		perduretest.Test(t, func(env *perduretest.Env) {
			answer, err := perduretest.Start(env, Agent, assistant.Question{Budget: budget}).
				Result()
			if err != nil || answer.Spent > budget ||
				(answer.Text == "42 teapots") != (budget >= 400) {
				t.Errorf("with %d: %+v %v", budget, answer, err)
			}
			if _, tokens := paid(t); tokens != answer.Spent {
				t.Errorf("with %d: paid %d, told of %d", budget, tokens, answer.Spent)
			}
		}, Agent, Research)
	}
}

func TestAVetoKeepsTheMailFromBeingSent(t *testing.T) {
	begin(t)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Agent, question)
		env.Sleep(30 * time.Second)
		run.Waits("veto")
		perduretest.Send(env, assistant.Veto, run.ID(), "we have tea")
		run.Returns(assistant.Answer{Text: "42 teapots", Spent: 400})
		run.Executed("mail", 0)
	}, Agent, Research)
}

func TestAgentsBearCrashesEverywhere(t *testing.T) {
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		begin(t)
		perduretest.Start(env, Agent, question).
			Returns(assistant.Answer{Text: "42 teapots", Spent: 400})
		all, tokens := paid(t)
		return []any{all, tokens}
	}, Agent, Research)
}

func TestAnAgentSurvivesAKill(t *testing.T) {
	at := terminal.Open(t)
	kill := at.Serve()
	at.Run("start", "agent", "--id", "q-1", "-i", `{"text":"how many?","budget":170}`)
	at.Until(func() bool { return strings.Contains(at.File("bill.txt"), "120 tokens") })
	kill()
	at.Serve()
	if answer := at.Run("runs", "wait", "q-1"); !strings.Contains(answer,
		`{"text":"the budget is spent","spent":160}`) {
		t.Errorf("answer: %s", answer)
	}
	for _, what := range []string{"120 tokens", "search teapots", "40 tokens", "math 6*7"} {
		if n := strings.Count(at.File("bill.txt"), what); n != 1 {
			t.Errorf("%s is paid %d times: %s", what, n, at.File("bill.txt"))
		}
	}
}
