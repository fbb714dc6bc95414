package assistant

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/update"
)

// A Talk is the state of a session.
type Talk struct {
	Said []string `json:"said"` // and found, so far
}

// Say puts a question to a session, and has the answer as its reply.
var Say = update.New[Question, Answer]("say", nil)

// session answers questions, one after the other, until nobody has asked for a day.
func (a agent) session(ctx context.Context, t Talk) (Talk, error) {
	for range 50 { // questions of one run, so that its journal stays short
		ask, err := Say.Wait(ctx, perdure.Within(24*time.Hour))
		if errors.Is(err, context.DeadlineExceeded) {
			return t, nil
		}
		if err != nil {
			return t, err
		}
		answer, err := a.answer(ctx, ask.Value, &t)
		if err != nil {
			return t, err
		}
		t.Said = append(t.Said, answer.Text)
		if err := ask.Reply(ctx, answer); err != nil {
			return t, err
		}
	}
	return t, perdure.ContinueAsNew(ctx, t)
}
