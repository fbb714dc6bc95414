package machine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
)

// A DocumentInput is the input of a step that runs a [Document].
type DocumentInput struct {
	// Workflow is the name of the workflow, such as a graph that dag.Read has made of a document.
	Workflow string `json:"flowName"`
	// Variables are the input of the workflow, as one JSON object.
	Variables map[string]json.RawMessage `json:"variables,omitempty"`
}

// Document is the function of a step that runs a workflow of any pattern, which its input names:
//
//	machine.Add(m, "enrich", machine.Document).To("decide")
//
// It starts one run for each visit, as a child, and completes with the output of that. The step
// fails if the run does not succeed. Children of steps have keys that do not begin with
// "document.".
func Document(ctx context.Context, in DocumentInput) (Action, error) {
	c, err := callOf(ctx, "document")
	if err != nil {
		return Action{}, err
	}
	if in.Workflow == "" {
		return Action{}, perdure.Permanent(errors.New(
			"the input of a document needs flowName, the name of a workflow"))
	}
	key := c.v.documentKey()
	out, ended, err := OutcomeOf[json.RawMessage](ctx, key)
	switch {
	case err != nil:
		return Action{}, err
	case !ended && in.Variables == nil:
		return StartChild(ChildNamed(in.Workflow, key, struct{}{})), nil
	case !ended:
		return StartChild(ChildNamed(in.Workflow, key, in.Variables)), nil
	case out.Err != nil:
		return Action{}, perdure.Permanent(fmt.Errorf("workflow %s: %w", in.Workflow, out.Err))
	case !out.Status.IsSuccess():
		return Action{}, perdure.Permanent(fmt.Errorf("workflow %s has ended %v", in.Workflow,
			out.Status))
	}
	return Complete(out.Output), nil
}

// documentKey returns the key of the child that runs the document of the visit.
func (v *visit) documentKey() string {
	if path := v.path(); path != v.s.id {
		sum := sha256.Sum256([]byte(path))
		return "document." + hex.EncodeToString(sum[:16])
	}
	return "document." + v.s.id
}
