package api

import "github.com/perdure/perdure/journal"

// An Acted is the result of an operator's action on a run.
type Acted struct {
	RunID      string `json:"run_id"` // the new run, or else the run itself
	WorkflowID string `json:"workflow_id"`
	New        bool   `json:"new"` // a run was started
	// paths of the steps of a terminated run that are not undone
	NotUndone []string `json:"not_undone,omitempty"`
}

// A Deleted is the result of the deletion of a dead letter.
type Deleted struct {
	ID string `json:"deleted"`
}

// A Preview has the effects that an operator's action would have. See [journal.Preview].
type Preview struct {
	RunID     string   `json:"run_id"`
	Kept      []string `json:"kept"`
	Again     []string `json:"again"`
	Inherited []string `json:"inherited"`
	Left      []string `json:"left"`
	Renewed   []string `json:"renewed"`
	Children  []string `json:"children"`
}

// PreviewOf returns the form of a preview. Its lists are never null.
func PreviewOf(p journal.Preview) Preview {
	out := Preview{
		RunID: string(p.Run), Kept: listOf(p.Kept), Again: listOf(p.Again),
		Inherited: listOf(p.Inherited), Left: listOf(p.Left), Renewed: listOf(p.Renewed),
		Children: []string{},
	}
	for _, child := range p.Children {
		out.Children = append(out.Children, string(child))
	}
	return out
}

func listOf(paths []string) []string { return append([]string{}, paths...) }
