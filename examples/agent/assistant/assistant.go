// Package assistant has the workflows of an agent: a language model that uses tools. No call
// is paid for twice.
package assistant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// A Question is a question for the agent. Budget limits the tokens that the answer may
// cost.
type Question struct {
	Text   string `json:"text"`
	Budget int    `json:"budget"`
}

// An Answer is the result of a question.
type Answer struct {
	Text  string `json:"text"`
	Spent int    `json:"spent"`
}

// A Reply of the model names a tool to use, or, without one, is the answer.
type Reply struct {
	Tool, Text string
	Tokens     int
}

// A Provider has the model and the tools. A call with a key that it has seen before costs
// nothing, and gets the same answer.
type Provider interface {
	Think(ctx context.Context, key string, talk []string, budget int) (Reply, error)
	Use(ctx context.Context, key, tool, text string) (string, error)
}

// Veto is the signal that keeps the agent from sending the mail that it is about to send.
var Veto = perdure.NewSignal[string]("veto")

// New returns the workflow of an agent, and the workflow of its research, which is a run of
// its own.
func New(p Provider) (
	answer *perdure.Workflow[Question, Answer],
	research *perdure.Workflow[string, string],
) {
	a, retry := agent{provider: p}, perdure.Retry{Attempts: 5}
	a.research = perdure.Define("research", func(ctx context.Context, topic string) (string,
		error) {
		return a.tool(ctx, "search", topic)
	}, retry)
	return perdure.Define("agent", a.answer, retry), a.research
}

type agent struct {
	provider Provider
	research *perdure.Workflow[string, string]
}

// answer asks the model for the next tool, uses it, and adds the outcome to the talk, until
// the model has an answer or the budget is spent.
func (a agent) answer(ctx context.Context, q Question) (out Answer, _ error) {
	for talk := []string{q.Text}; ; {
		key := perdure.Key(fmt.Sprint("turn-", len(talk)))
		reply, err := perdure.Step(ctx, "think", func(ctx context.Context) (Reply, error) {
			return a.provider.Think(ctx, perdure.IdempotencyKey(ctx), talk, q.Budget-out.Spent)
		}, key)
		if err != nil {
			return out, err
		}
		if out.Spent += reply.Tokens; reply.Tool == "" {
			return Answer{reply.Text, out.Spent}, nil
		}
		found, err := a.use(ctx, reply, key)
		if err == nil {
			talk = append(talk, reply.Tool+" "+reply.Text+": "+found)
			err = perdure.Publish(ctx, "talk", talk) // others can read it
		}
		if err != nil {
			return out, err
		}
	}
}

// use uses a tool. Research is a child. Before a mail is sent, people have a minute to veto
// it.
func (a agent) use(ctx context.Context, reply Reply, key perdure.Key) (string, error) {
	switch reply.Tool {
	case "research":
		return a.research.Child(ctx, reply.Text, key).Await(ctx)
	case "mail":
		why, err := Veto.Wait(ctx, perdure.Within(time.Minute))
		if !errors.Is(err, context.DeadlineExceeded) {
			return "not sent, " + why, err
		}
	}
	return a.tool(ctx, reply.Tool, reply.Text, key)
}

// tool is a step that uses a tool.
func (a agent) tool(
	ctx context.Context, name, text string, opts ...perdure.StepOption,
) (string, error) {
	return perdure.Step(ctx, name, func(ctx context.Context) (string, error) {
		return a.provider.Use(ctx, perdure.IdempotencyKey(ctx), name, text)
	}, opts...)
}
