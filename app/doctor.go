package app

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
)

func (p *program) newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the database, its engines and its runs",
		Long: `Checks the database, its engines and its runs, and shows what each check has found, with
the command that mends it. It looks at a bounded number of runs, so it is quick on a
large database, and changes nothing. With or without an engine. The exit code is 1 if a
check has failed; with --strict also after a warning.`,
		Example: `  perdure doctor
  perdure doctor --strict -o json
  perdure doctor start 3 retention`,
		Args: exactly(),
	}
	db := p.database(cmd)
	var o admin.DoctorOptions
	out := newOutput(cmd)
	strict := cmd.Flags().Bool("strict", false, "exit with 1 also after a warning")
	cmd.Flags().DurationVar(&o.Overdue, "overdue", 0,
		"how long a due run may wait for an engine (default 1m)")
	cmd.Flags().DurationVar(&o.Stale, "stale", 0,
		"how long a busy run may have no new entry (default 1h)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			checks, err := admin.New(c.Client).Doctor(ctx, o)
			if err != nil {
				return err
			}
			var all []api.Check
			wrong := 0
			for _, check := range checks {
				all = append(all, present.Check(check, c.place.Command))
				if check.Health == admin.Failing || *strict && check.Health == admin.Warned {
					wrong++
				}
			}
			err = list(out, cmd.OutOrStdout(), all, checkColumns)
			if err != nil || wrong == 0 {
				return err
			}
			return fmt.Errorf("doctor: %d of %d checks are not in order", wrong, len(all))
		})
	}
	cmd.AddCommand(newDoctorStart(db))
	return cmd
}

var checkColumns = []column[api.Check]{
	{"CHECK", func(c api.Check) string { return c.Name }},
	{"HEALTH", func(c api.Check) string { return c.Health }},
	{"EVIDENCE", func(c api.Check) string {
		if len(c.IDs) == 0 || c.Health == string(admin.Healthy) {
			return c.Evidence
		}
		return c.Evidence + ": " + strings.Join(c.IDs, ", ")
	}},
	{"MEND", func(c api.Check) string { return strings.Join(c.Mend, "; ") }},
}

func newDoctorStart(db *database) *cobra.Command {
	var note admin.Note
	cmd := &cobra.Command{
		Use:   "start ENGINE LOOP",
		Short: "Let an engine begin a loop again that has stopped",
		Long: `Lets an engine begin a loop again that has stopped. The check loops of the doctor shows
such loops. The engine begins it when it hears of the change, which is soon.`,
		Example: "  perdure doctor start 3 retention",
		Args:    exactly("ENGINE", "LOOP"),
	}
	noteFlags(cmd, &note)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		engine, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || engine <= 0 {
			return usage(cmd, fmt.Sprintf("engine %q is not valid: allowed are the numbers that "+
				"workers list shows", args[0]))
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			err := admin.New(c.Client).StartLoop(ctx, journal.EngineID(engine), args[1],
				signedNote(note))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "engine %d begins the loop %s again\n", engine,
				clean(args[1]))
			return err
		})
	}
	return cmd
}
