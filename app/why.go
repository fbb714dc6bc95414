package app

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
)

func (p *program) newWhy() *cobra.Command {
	cmd := &cobra.Command{
		Use: "why ID", Short: "Show why a run does not go on, and all that it waits for",
		Long: `Shows in one sentence why an open run does not go on by itself now, and lists everything
that it waits for. ID is a run ID, a workflow ID or @latest.`,
		Example: "  perdure why ord-1001\n  perdure why @latest -o json",
	}
	return showing(p.database(cmd), cmd, func(d api.Description) any {
		return present.Reason(d)
	}, printReason)
}

func printReason(w io.Writer, d api.Description) error {
	r := present.Reason(d)
	err := fields(w, "run", r.RunID, "workflow ID", r.WorkflowID, "status", r.Status, "why", r.Why)
	if err != nil {
		return err
	}
	return section(w, "waits for", r.Waits, waitColumns)
}
