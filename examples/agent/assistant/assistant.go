// Package assistant has the workflows of an agent: a language model that uses tools. No call
// is paid for twice.
package assistant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/stream"
)

// A Question is a question for the agent. Budget limits the tokens that the answer may cost, and
// Turns how often the model may be asked; 0 stands for MaxTurns.
type Question struct {
	Text   string `json:"text"`
	Budget int    `json:"budget"`
	Turns  int    `json:"turns,omitempty"`
}

// MaxTurns is the limit of a question that has none of its own.
const MaxTurns = 20

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

// Words is the stream of what the model says, word by word, while it is asked. A Provider writes
// it.
var Words = stream.New[string]("words")

// New returns the workflows of an agent: for one question, for a session of many, and for its
// research, which is a run of its own.
func New(p Provider) (
	answer *perdure.Workflow[Question, Answer], session *perdure.Workflow[Talk, Talk],
	research *perdure.Workflow[string, string],
) {
	a, retry := agent{provider: p}, perdure.Retry{Attempts: 5}
	a.research = perdure.Define("research", func(ctx context.Context, topic string) (string,
		error) {
		return a.tool(ctx, "search", topic)
	}, retry)
	return perdure.Define("agent", func(ctx context.Context, q Question) (Answer, error) {
		return a.answer(ctx, q, &Talk{})
	}, retry), perdure.Define("session", a.session, retry), a.research
}

type agent struct {
	provider Provider
	research *perdure.Workflow[string, string]
}

// answer adds a question to a talk. It asks the model for the next tool, uses it, and adds the
// outcome, until the model has an answer, or the turns or the budget are spent.
func (a agent) answer(ctx context.Context, q Question, t *Talk) (out Answer, _ error) {
	t.Said = append(t.Said, q.Text)
	for range cmp.Or(q.Turns, MaxTurns) {
		key := perdure.Key(fmt.Sprint("turn-", len(t.Said)))
		reply, err := perdure.Step(ctx, "think", func(ctx context.Context) (Reply, error) {
			return a.provider.Think(ctx, perdure.IdempotencyKey(ctx), t.Said, q.Budget-out.Spent)
		}, key)
		if err != nil {
			return out, err
		}
		if out.Spent += reply.Tokens; reply.Tool == "" {
			return Answer{reply.Text, out.Spent}, nil
		}
		found, err := a.use(ctx, reply, key)
		if err == nil {
			t.Said = append(t.Said, reply.Tool+" "+reply.Text+": "+found)
			err = errors.Join(perdure.Publish(ctx, "talk", t.Said), // others can read it
				perdure.Publish(ctx, "spent", out.Spent))
		}
		if err != nil {
			return out, err
		}
	}
	out.Text = "no answer in the turns that it may take"
	return out, nil
}

// use uses a tool. Research is a child. An order needs the approval of a buyer. Before a mail is
// sent, people have a minute to veto it.
func (a agent) use(ctx context.Context, reply Reply, key perdure.Key) (string, error) {
	switch reply.Tool {
	case "research":
		return a.research.Child(ctx, reply.Text, key).Await(ctx)
	case "order":
		out, err := approval.Wait(ctx, approval.Ask{
			Key: string(key), Title: reply.Text, Role: "buyer", Within: 24 * time.Hour,
		})
		if err != nil || !out.IsApproved() {
			return "not ordered: " + string(out.Status), err
		}
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
