package app

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/api"
)

func (p *program) newWhy() *cobra.Command {
	cmd := &cobra.Command{
		Use: "why ID", Short: "Show why a run does not go on, and all that it waits for",
		Long: `Shows in one sentence why an open run does not go on by itself now, and lists everything
that it waits for. ID is a run ID, a workflow ID or @latest.`,
		Example: "  perdure why ord-1001\n  perdure why @latest -o json",
	}
	return showing(p.database(cmd), cmd, func(d api.Description) any {
		return reasonOf(d)
	}, printReason)
}

// A reason has the fields of a run that say why it does not go on.
type reason struct {
	RunID      string     `json:"run_id"`
	WorkflowID string     `json:"workflow_id"`
	Status     string     `json:"status"`
	Why        string     `json:"why"`
	Waits      []api.Wait `json:"waits"`
}

func reasonOf(d api.Description) reason {
	r := reason{
		RunID: d.RunID, WorkflowID: d.WorkflowID, Status: d.Status, Why: d.Why, Waits: d.Waits,
	}
	ended := !d.Ended.IsZero()
	switch {
	case r.Why != "":
	case ended:
		r.Why = "it has ended as " + d.Status
	default:
		r.Why = "it goes on"
	}
	if r.Waits == nil {
		r.Waits = []api.Wait{}
	}
	return r
}

func printReason(w io.Writer, d api.Description) error {
	r := reasonOf(d)
	err := fields(w, "run", r.RunID, "workflow ID", r.WorkflowID, "status", r.Status, "why", r.Why)
	if err != nil {
		return err
	}
	return section(w, "waits for", r.Waits, waitColumns)
}
