package perdure

import (
	"context"
	"math"
	"time"

	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// lettersKey is the key under which the context of a workflow says that its failure is
// dead-lettered.
type lettersKey struct{}

// deadLettered returns a body whose failure is dead-lettered, where that is wanted.
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
		// an error says that the run is over already, or not for long here
		_ = deadletter.ForFailure(ctx, f)
		return data, f
	}
}

// handOver is how a letter gets to who takes it instead of the queue: as often as it
// takes.
var handOver = Retry{Attempts: math.MaxInt, First: time.Second, Factor: 2}

// letterWorkflow is what a letter does: it waits until it is settled. Where somebody
// else takes letters, it goes there.
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
			return l, nil
		})
}
