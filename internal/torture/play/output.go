package play

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/steplog"
	"github.com/perdure/perdure/stream"
)

// Said is the name of the stream of steps that put something out. The variable of that name and the
// step's has the beginning of what the attempt has put in that counts.
const Said = "said"

// LogLimit is the limit of the log lines of one attempt.
const LogLimit = 400

var (
	said   = stream.New[string](Said)
	logger = slog.New(steplog.Handler(slog.DiscardHandler))
)

// say puts three chunks into the stream, and logs more than is kept. Its first attempt may fail
// then. What it has put in is there at once, and what attempts before it have put in is not.
func say(ctx context.Context, p *player, op *program.Op) error {
	step, is := perdure.StepOf(ctx)
	if !is {
		return errors.New("this is no step")
	}
	call := rand.Text()
	logger.InfoContext(ctx, call)
	for i, put := range []func(context.Context, string) error{said.Push, said.Append, said.Push} {
		if err := put(ctx, fmt.Sprint(call, " ", i)); err != nil {
			return err
		}
		steplog.Logger(ctx).Warn(call, "chunk", i, "big", big[:LogLimit/3])
		if i != 1 {
			continue
		}
		page, err := said.Read(ctx, p.caller(), string(step.Run.ID), 0, 0)
		if err != nil {
			return err
		}
		n := 0
		for _, c := range page.Chunks {
			if c.Value == fmt.Sprint(call, " ", n) {
				n++
			}
		}
		if n != 2 {
			return perdure.Permanent(fmt.Errorf("the stream has %d chunks of 2: %v", n, page))
		}
	}
	if step.Attempt == 1 && op.ID%2 == 0 {
		return ErrMeant
	}
	if _, err := steplog.Read(ctx, p.caller(), string(step.Run.ID), steplog.Query{}); err != nil {
		return err
	}
	return perdure.SetVariable(ctx, Said+op.Name(), call)
}
