package backpressure

import (
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// Named is the name of a registered [Policy]. As an option of a start it holds
// for that run, of a graph, a saga or a composition of TCCs, instead of the definition's;
// as an option of a saga's Inline it holds for that part. A start with it is refused where
// no policy has the name, and where the workflow does nothing under a policy.
//
// The name is kept with the run and those that it continues as, and every engine that
// takes the run up looks it up. One that does not know it parks the run.
type Named string

func (n Named) ApplyToStart(o *sealed.Start) error {
	if n == "" {
		return failure.Invalid("start", "an empty name of a pressure")
	}
	o.Note(sealed.HeaderPolicy, string(n))
	return nil
}

func (Named) ApplyToBranch(*sealed.Operation) error {
	return &journal.Error{
		Code: journal.CodeInvalid, Message: "what runs here does nothing under a pressure",
		Hint: "Named is an option of a start, or of a saga's Inline",
	}
}
