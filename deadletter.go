package perdure

import (
	"context"
	"math"
	"time"

	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// lettersKey is the context key of a workflow whose failure makes a dead letter.
type lettersKey struct{}

// deadLettered returns a body whose failure makes a dead letter, if wanted.
func deadLettered(wanted bool, body func(context.Context, []byte) ([]byte,
	*journal.Failure)) func(context.Context, []byte) ([]byte, *journal.Failure) {
	if !wanted {
		return body
	}
	return func(ctx context.Context, input []byte) ([]byte, *journal.Failure) {
		ctx = context.WithValue(ctx, lettersKey{}, true)
		data, f := body(ctx, input)
		if f == nil {
			return data, f
		}
		if c := f.OwnClass(); c != nil && (c.Class == journal.ClassRetry ||
			c.Class == journal.ClassPark) {
			return data, f // it goes on
		}
		// an error means that the run is over already, or leaves this engine soon
		_ = deadletter.ForFailure(ctx, f)
		return data, f
	}
}

// handOver is the retry policy for calls of Options.DeadLetters. It does not limit the attempts.
var handOver = Retry{Attempts: math.MaxInt, First: time.Second, Factor: 2}

// letterWorkflow is the workflow of a dead letter: it waits until the letter is settled. If take
// is not nil, it passes the letter to take instead.
func letterWorkflow(take func(context.Context,
	deadletter.Letter) error) *Workflow[deadletter.Letter, deadletter.Letter] {
	return define(kernel.DeadLetterWorkflow,
		func(ctx context.Context, l deadletter.Letter) (deadletter.Letter, error) {
			info, err := InfoOf(ctx)
			if err != nil {
				return l, err
			}
			l.ID, l.CreatedAt = info.WorkflowID, info.Started
			if take != nil {
				return Step(ctx, "hand-over", func(ctx context.Context) (deadletter.Letter, error) {
					return l, take(ctx, l)
				}, handOver)
			}
			for settled := false; !settled; {
				out, err := kernel.Receive(ctx, kernel.Wait{Name: kernel.DeadLetterNews})
				n, err := result[kernel.News]("dead letter", l.ID, out, err)
				if err != nil {
					return l, err
				}
				settled = l.Hear(n)
			}
			if l.HandledAt.IsZero() {
				return l, nil
			}
			return l, SetAttribute(ctx, deadletter.AttributeHandled, "true")
		})
}
