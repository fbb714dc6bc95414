package backpressure

import (
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// Named is the name of a registered [Policy]. As an option of a start of a graph, a saga or a
// composition of TCCs it replaces the policy of the definition for that run. As an option of a
// saga's Inline it replaces the policy for that part. A start with it is refused if no policy has
// the name, or if the workflow uses no policy.
//
// The name is kept with the run and with the runs that it continues as. Every engine that loads the
// run looks the name up. An engine that does not know the name parks the run.
type Named string

func (n Named) ApplyToStart(o *sealed.Start) error {
	if n == "" {
		return failure.Invalid("start", "an empty name of a policy")
	}
	o.Note(sealed.HeaderPolicy, string(n))
	return nil
}

func (Named) ApplyToBranch(*sealed.Operation) error {
	return &journal.Error{
		Code:    journal.CodeInvalid,
		Message: "this operation uses no backpressure policy",
		Hint:    "Named is an option of a start, or of a saga's Inline",
	}
}
