package app

import (
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/app/internal/demo"
)

func newDemo() *cobra.Command {
	var o demo.Options
	var once bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Kill a worker again and again, and prove that nothing is lost or done twice",
		Long: `Fulfils orders (reserve, charge, ship; refund and release where the carrier
refuses) in a worker process on the SQLite file DIR/perdure.db. The worker is
killed with SIGKILL after an effect on the outside world began and before its
result was stored, and started again. The outside world is a process of its own
that writes every call it gets into DIR/ledger.jsonl, repeated ones too. The
checks at the end are judged from that ledger.

What an earlier demo left in DIR is removed at the start. Without --once one
demo follows another, each with the next seed, until it is interrupted or a
check is false.`,
		Example: `  perdure demo --once --kills 3
  perdure demo --once --kills 30 --seed 2 --dir /tmp/demo`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				o.Seed = uint64(rand.Uint32())
			}
			if !cmd.Flags().Changed("orders") {
				o.Orders = demo.DefaultOrders(o.Kills)
			}
			return runDemo(cmd, o, once)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&once, "once", false, "end after one demo")
	flags.IntVar(&o.Kills, "kills", 3, "how often the worker is killed")
	flags.IntVar(&o.Orders, "orders", 0, "how many orders there are (default as many as fit the kills)")
	flags.Uint64Var(&o.Seed, "seed", 0, "chooses orders, refusals and kills (default random, and shown)")
	flags.StringVar(&o.Dir, "dir", "perdure-demo", "directory of the database and the ledger")
	return cmd
}

func runDemo(cmd *cobra.Command, o demo.Options, once bool) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	o.Executable = executable
	for ; ; o.Seed++ {
		if err := demo.Run(cmd.Context(), o, cmd.OutOrStdout()); err != nil || once {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout())
	}
}

func newDemoWorker() *cobra.Command {
	return &cobra.Command{
		Use: demo.WorkerCommand, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Worker(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func newDemoWorld() *cobra.Command {
	return &cobra.Command{
		Use: demo.WorldCommand, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.World(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
