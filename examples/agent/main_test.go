package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/examples/agent/assistant"
	"github.com/perdure/perdure/examples/internal/terminal"
	"github.com/perdure/perdure/journal"
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

// spec: R-41
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

// The stream has the words of each answer once, and not those of the answers that were lost.
//
// spec: B-11
func TestTheWordsOfLostAnswersAreVoid(t *testing.T) {
	begin(t)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Agent, question)
		run.Returns(assistant.Answer{Text: "42 teapots", Spent: 400})
		p, err := assistant.Words.Read(env.Context(), env.Engine(), run.RunID(), 0, 0)
		var got []string
		for _, c := range p.Chunks {
			got = append(got, c.Value)
		}
		want := "research teapots math 6*7 search tea mail buy tea 42 teapots"
		if s := strings.Join(got, " "); err != nil || s != want {
			t.Errorf("%q, %v", s, err)
		}
	}, Agent, Research)
}

// spec: R-41
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

// spec: R-41
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

// spec: R-41
func TestAgentsBearCrashesEverywhere(t *testing.T) {
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		begin(t)
		perduretest.Start(env, Agent, question).
			Returns(assistant.Answer{Text: "42 teapots", Spent: 400})
		all, tokens := paid(t)
		return []any{all, tokens}
	}, Agent, Research)
}

// spec: R-41
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

// spec: R-41
func TestTheTurnsAreCapped(t *testing.T) {
	for turns := 1; turns <= 5; turns++ {
		begin(t)
		perduretest.Test(t, func(env *perduretest.Env) {
			run := perduretest.Start(env, Agent, assistant.Question{
				Text: "how many?", Budget: 1000, Turns: turns,
			})
			answer, err := run.Result()
			if err != nil || (answer.Text == "42 teapots") != (turns == 5) {
				t.Errorf("with %d turns: %+v %v", turns, answer, err)
			}
			if got, tokens := paid(t); tokens != answer.Spent {
				t.Errorf("with %d turns: paid %q, told of %d", turns, got, answer.Spent)
			}
		}, Agent, Research)
	}
}

// The journal has what each call has cost, and the run shows the sum so far.
//
// spec: R-41
func TestTheJournalHasTheCost(t *testing.T) {
	begin(t)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Agent, question)
		run.Returns(assistant.Answer{Text: "42 teapots", Spent: 400})
		run.Published("spent", 300) // before the last turn
		entries, err := env.Engine().History(env.Context(), run.ID(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		spent := 0
		for _, e := range entries {
			var reply assistant.Reply
			if e.Kind == journal.StepCompleted && e.Op.Name == "think" &&
				json.Unmarshal(e.Data, &reply) == nil {
				spent += reply.Tokens
			}
		}
		if spent != 400 {
			t.Errorf("the journal has %d tokens", spent)
		}
	}, Agent, Research)
}

// An order waits for a buyer: it is given when one has approved, and not otherwise.
//
// spec: R-41
func TestAnOrderNeedsABuyer(t *testing.T) {
	order := assistant.Question{Text: "order teapots", Budget: 1000}
	for _, c := range []struct {
		decide   func(env *perduretest.Env, id string) error
		text     string
		executed int
	}{
		{func(env *perduretest.Env, id string) error {
			_, err := approval.Decide(env.Context(), env.Engine(), id, "turn-1",
				approval.Decision{Approved: true, By: "ada", Role: "buyer"})
			return err
		}, "done", 1},
		{func(env *perduretest.Env, id string) error {
			_, err := approval.Decide(env.Context(), env.Engine(), id, "turn-1",
				approval.Decision{By: "ada", Role: "buyer", Reason: "we have teapots"})
			return err
		}, "not ordered: rejected", 0},
		{func(*perduretest.Env, string) error { return nil }, "not ordered: expired", 0},
	} {
		begin(t)
		perduretest.Test(t, func(env *perduretest.Env) {
			run := perduretest.Start(env, Agent, order)
			env.Sleep(30 * time.Second)
			env.Crash()
			run.Executed("order", 0)
			if err := c.decide(env, run.ID()); err != nil {
				t.Error(err)
			}
			run.Returns(assistant.Answer{Text: c.text, Spent: 140})
			run.Executed("order", c.executed)
		}, Agent, Research)
	}
}

// A session remembers what was said, over crashes and over the runs that it continues as, and
// replies to each question once.
//
// spec: R-41
func TestASessionHasManyTurns(t *testing.T) {
	begin(t)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Session, assistant.Talk{})
		say := func(q assistant.Question, key perdure.SendKey) assistant.Answer {
			answer, err := assistant.Say.Send(env.Context(), env.Engine(), run.ID(), q, key)
			if err != nil {
				t.Error(err)
			}
			return answer
		}
		want := assistant.Answer{Text: "42 teapots", Spent: 400}
		for _, key := range []perdure.SendKey{"one", "one", "two"} {
			if got := say(question, key); got != want && key == "one" {
				t.Errorf("%+v, want %+v", got, want)
			}
			env.Crash()
		}
		for i := range 60 {
			say(assistant.Question{Text: "for nothing"}, perdure.SendKey(fmt.Sprint(i)))
		}
		talk, err := run.Result()
		if err != nil || len(talk.Said) < 120 || talk.Said[0] != question.Text ||
			!slices.Contains(talk.Said, "42 teapots") {
			t.Errorf("%q, %v", talk.Said, err)
		}
		if run.Report().RunID == run.RunID() {
			t.Error("it has not continued as new")
		}
	}, Session, Research)
}
