package perdure

import "context"

// DeadLetter records, in workflow code, that a step has failed for good and that an
// operator should know of it.
func DeadLetter(ctx context.Context, step string, err error) error {
	return Record(ctx, Fact{Kind: StepDeadLettered, Name: step, Err: err})
}
