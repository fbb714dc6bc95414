package play

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/callback"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/pattern"
)

// callback waits for an answer that a step of the same run gives, like somebody outside: the step
// may die after the answer and give it again.
func (p *player) callback(ctx context.Context, op *program.Op) error {
	limit := perdure.Within(1000 * time.Hour)
	if op.Way == "expire" {
		limit = perdure.Within(5 * time.Millisecond)
	}
	w, err := callback.New[int](ctx, op.Name(), limit)
	if err != nil {
		return err
	}
	if op.Way != "expire" {
		if err := perdure.Do(ctx, op.Name()+".answer", func(ctx context.Context) error {
			text, err := w.Token(ctx)
			if err != nil {
				return err
			}
			return answer(ctx, p, op, text)
		}, brisk); err != nil {
			return err
		}
	}
	v, err := w.Await(ctx)
	if over := pattern.EndedBy(ctx); over != nil && err != nil {
		return over
	}
	switch {
	case op.Way == "expire":
		return p.timedOut(ctx, op, err)
	case op.Way == "fail" && errors.Is(err, callback.ErrFailed):
		p.fact(op, "failed")
		return nil
	case err != nil:
		return err
	}
	p.fact(op, "got %d", v)
	return nil
}

// answer extends and answers a callback.
func answer(ctx context.Context, p *player, op *program.Op, text string) error {
	c := p.caller()
	w, err := callback.Get(ctx, c, text)
	if err != nil {
		return err
	}
	for range op.N {
		err := callback.Heartbeat(ctx, c, text, 2000*time.Hour)
		if err != nil && !errors.Is(err, callback.ErrAnswered) {
			return err
		}
	}
	v := op.Payload(p.in.Round, 0)
	if op.Way == "fail" {
		return callback.Fail(ctx, c, text, fmt.Sprint(v))
	}
	if err := callback.Succeed(ctx, c, text, v); err != nil {
		return err
	}
	if err := callback.Succeed(ctx, c, text, v+1); !errors.Is(err, callback.ErrAnswered) {
		return errors.Join(fmt.Errorf("callback %+v took two answers", w), err)
	}
	return nil
}
