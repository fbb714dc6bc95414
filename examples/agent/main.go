// Command agent answers questions with a language model that uses tools. What was
// paid for once is never paid for again.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/app"
)

// A Question is what the agent is asked, and how many tokens the answer may cost.
type Question struct {
	Text   string `json:"text"`
	Budget int    `json:"budget"`
}

// An Answer is what came of it.
type Answer struct {
	Text  string `json:"text"`
	Spent int    `json:"spent"`
}

// Veto keeps the agent from sending the mail that it is about to send.
var Veto = perdure.NewSignal[string]("veto")

// Research finds something out, as a run of its own.
var Research = perdure.Define("research", func(ctx context.Context, topic string) (string, error) {
	return tool(ctx, "search", topic)
}, perdure.Retry{Attempts: 5})

// Agent answers a question.
var Agent = perdure.Define("agent", agent, perdure.Retry{Attempts: 5})

func main() { app.Main(Agent, Research) }

// agent has the model say what to do, does it, and tells the model what came of
// it, until there is an answer or the budget is spent.
func agent(ctx context.Context, q Question) (a Answer, _ error) {
	for talk := []string{q.Text}; ; {
		key := perdure.Key(fmt.Sprint("turn-", len(talk)))
		say, err := perdure.Step(ctx, "think", func(ctx context.Context) (Say, error) {
			return think(ctx, talk, q.Budget-a.Spent)
		}, key)
		if err != nil {
			return a, err
		}
		if a.Spent += say.Tokens; say.Tool == "" {
			return Answer{say.Text, a.Spent}, nil
		}
		got, err := use(ctx, say, key)
		if err == nil {
			talk = append(talk, say.Tool+" "+say.Text+": "+got)
			err = perdure.Publish(ctx, "talk", talk) // is seen from outside
		}
		if err != nil {
			return a, err
		}
	}
}

// use uses a tool. Research is a run of its own; before a mail goes out, people
// have a minute to say no.
func use(ctx context.Context, say Say, key perdure.Key) (string, error) {
	switch say.Tool {
	case "research":
		return Research.Child(ctx, say.Text, key).Await(ctx)
	case "mail":
		why, err := Veto.Wait(ctx, perdure.Within(time.Minute))
		if !errors.Is(err, context.DeadlineExceeded) {
			return "not sent, " + why, err
		}
	}
	return tool(ctx, say.Tool, say.Text, key)
}

// tool is a step that uses a tool.
func tool(ctx context.Context, name, text string, opts ...perdure.StepOption) (string, error) {
	return perdure.Step(ctx, name, func(ctx context.Context) (string, error) {
		_, err := pay(ctx, name+" "+text)
		return "done", err
	}, opts...)
}
