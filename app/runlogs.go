package app

import (
	"cmp"
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/steplog"
)

func newRunsLogs(db *database) *cobra.Command {
	var q steplog.Query
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Show the log lines that are kept of the steps of a run",
		Long: `Steps and workflows with the option steplog.Keep keep what their bodies log.
The lines are in the order in which they were recorded.`,
		Example: `  perdure runs logs ord-1001
  perdure runs logs ord-1001 --step charge --attempt 2
  perdure runs logs ord-1001 -o jsonl | jq 'select(.level == "ERROR")'`,
	}
	out := newOutput(cmd)
	cmd.Flags().StringVar(&q.Step, "step", "", "of this step, by its path")
	cmd.Flags().IntVar(&q.Attempt, "attempt", 0, "of this attempt; 0 for all")
	return aboutRun(db, cmd, out.check, db.read, func(ctx context.Context, c *client,
		h journal.Head) error {
		if q.Attempt < 0 {
			return usage(cmd, "--attempt is 0 or more")
		}
		lines, err := steplog.Read(ctx, c, string(h.ID), q)
		all := make([]api.LogLine, 0, len(lines))
		for _, l := range lines {
			all = append(all, present.LogLine(l))
		}
		return cmp.Or(err, list(out, cmd.OutOrStdout(), all, lineColumns))
	})
}

var lineColumns = []column[api.LogLine]{
	{"AT", func(l api.LogLine) string { return l.At.Format("2006-01-02T15:04:05.000Z") }},
	{"STEP", func(l api.LogLine) string { return l.Step }},
	{"ATTEMPT", func(l api.LogLine) string { return strconv.Itoa(l.Attempt) }},
	{"LEVEL", func(l api.LogLine) string { return l.Level }},
	{"MESSAGE", func(l api.LogLine) string { return l.Message }},
	{"ATTRIBUTES", func(l api.LogLine) string { return string(l.Attrs) }},
}
