package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
)

// A Reply is what a model says: which tool to use, or the answer.
type Reply struct {
	Tool     string `json:"tool,omitempty"`
	Argument string `json:"argument,omitempty"`
	Answer   string `json:"answer,omitempty"`
	Tokens   int64  `json:"tokens"` // what it costs
}

// mostTurns is how often an agent asks the model.
const mostTurns = 10

var errNoAnswer = errors.New("the model has no answer")

// agent asks a model, uses the tool that it names, tells it what that gave, and
// so on until it answers. What the model has said once is in the journal: a
// crash does not pay for it again, and it cannot say something else.
func agent(w *client) *perdure.Workflow[string, string] {
	return perdure.Define("agent", func(ctx context.Context, question string) (string, error) {
		notes := []string{question}
		for n := range mostTurns {
			turn := fmt.Sprint("turn-", n+1)
			reply, err := perdure.Step(ctx, "ask", func(ctx context.Context) (Reply, error) {
				return w.Ask(ctx, perdure.IdempotencyKey(ctx), turn, notes)
			}, perdure.Key(turn))
			if err != nil || reply.Answer != "" {
				return reply.Answer, err
			}

			found, err := perdure.Step(ctx, reply.Tool, func(ctx context.Context) (string, error) {
				return w.Use(ctx, perdure.IdempotencyKey(ctx), turn, reply.Tool, reply.Argument)
			}, perdure.Key(turn))
			if err != nil {
				return "", err
			}
			notes = append(notes, found)
		}
		return "", errNoAnswer
	}, patience)
}
