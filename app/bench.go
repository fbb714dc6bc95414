package app

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/app/internal/bench"
	"github.com/perdure/perdure/journal"
)

func (p *program) newBench() *cobra.Command {
	var o bench.Options
	var db *database
	var output string
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the engine, and the limit of this disk",
		Long: `Measures one workload, whose steps do nothing, and prints one JSON object.

  sequential  40,000 runs of 5 steps, 256 in flight
  latency     1,000 runs of 5 steps, one at a time
  fanout      one run of 1,000 parallel steps, repeated; the median counts
  resume      one run of 100,000 steps; it is interrupted and resumed
  sleepers    100,000 runs sleep, and 10,000 of them wake at one instant
  signals     20,000 runs that are not in memory get a signal each
  timers      10,000 timers come due, 1,000 a second

On PostgreSQL it makes databases perdure_bench_… beside the one that --store names,
and drops them; nothing of that one is touched. --store memory: leaves the disk out.

The floor is a bare loop that writes the same rows with the same store in a file or
a database of its own beside. It is measured before and after the engine, of sleepers
only after it, and the better figures count. CPU and memory are the engine's.`,
		Example: `  perdure bench --workload sequential
  perdure bench --workload latency --store /data/bench.db -o text
  perdure bench --store postgres://shop@db.internal/shop`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			write := (*bench.Report).JSON
			switch output {
			case "json":
			case "text":
				write = (*bench.Report).Text
			default:
				return &perdure.Error{
					Code: journal.CodeInvalid, Op: "bench", Message: "there is no output format " +
						output, Hint: "-o is json or text",
				}
			}
			var err error
			if o.Store, err = db.itself("bench"); err != nil {
				return err
			}
			report, err := bench.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			return write(report, cmd.OutOrStdout())
		},
	}
	db = p.databaseOr(cmd, "sqlite:", itself, "a temporary file in this directory")
	flags := cmd.Flags()
	flags.StringVar(&o.Workload, "workload", bench.Sequential, strings.Join(bench.Workloads(),
		", "))
	flags.IntVar(&o.Runs, "runs", 0, "number of runs (default by workload)")
	flags.IntVar(&o.Steps, "steps", 0, "steps of each run (default by workload)")
	flags.IntVar(&o.InFlight, "in-flight", 0, "runs at a time (default by workload)")
	flags.IntVar(&o.Payload, "payload", 0, "bytes of each input, result and output (default 100)")
	flags.DurationVar(&o.Idle, "idle", 0, "of sleepers: how long the idle engine is measured "+
		"(default 30s)")
	flags.BoolVar(&o.Force, "force", false, "replace FILE if it exists")
	flags.BoolVar(&o.Keep, "keep", false, "leave the database in place")
	flags.StringVarP(&output, "output", "o", "json", "json or text")
	return cmd
}
