package app

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/app/internal/demo"
	"github.com/perdure/perdure/internal/place"
)

func (p *program) newDemo() *cobra.Command {
	var o demo.Options
	var db *database
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Kill a worker again and again, and prove that nothing is lost or done twice",
		Long: `Executes six workflows (orders, transfers, an approval, labels, an agent and a
subscription) in a worker process on the SQLite file DIR/perdure.db. The worker
is killed with SIGKILL after an effect on the outside world began and before its
result was stored, and started again. The outside world is a process of its own
that writes every call it gets into DIR/ledger.jsonl, repeated ones too. The
checks at the end are judged from that ledger.

With --cluster several workers share the runs on a PostgreSQL, one in five of those that
are hit is held up for longer than its lease instead of killed, and others take over
what it had. On a PostgreSQL the demo makes a database perdure_demo_… beside the one that
--store names, and touches nothing else; the next demo in DIR drops it.

What an earlier demo left in DIR is removed at the start. Without --once the last
worker goes on until it is interrupted, for you to use the command line on its
file; on a terminal, keys approve and fast-forward what waits.`,
		Example: `  perdure demo                             then press a, f, q
  perdure demo --once --kills 3
  perdure demo --once --kills 30 --seed 2 --dir /tmp/demo
  perdure demo --once --cluster 3 --kills 10 --store postgres://shop@db.internal/shop`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				o.Seed = uint64(rand.Uint32())
			}
			if !cmd.Flags().Changed("orders") {
				o.Orders = demo.DefaultOrders(o.Kills)
			}
			at, err := db.place()
			if err != nil {
				return err
			}
			if o.Store = at; at.FromEnv && at.Kind == place.SQLite { // which is not the demo's
				o.Store = place.Place{}
			}
			executable, err := os.Executable()
			if err != nil {
				return err
			}
			o.Executable, o.Program = executable, typed(executable, cmd.Root().Name())
			err = demo.Run(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout())
			if errors.Is(err, demo.ErrInterrupted) {
				return errInterrupted
			}
			return err
		},
	}
	db = p.databaseOr(cmd, "sqlite:", "DIR/perdure.db")
	flags := cmd.Flags()
	flags.BoolVar(&o.Once, "once", false, "end after the checks")
	flags.IntVar(&o.Kills, "kills", 3, "how often a worker is killed")
	flags.IntVar(&o.Cluster, "cluster", 1, "how many workers there are at a time; several need a PostgreSQL")
	flags.IntVar(&o.Orders, "orders", 0, "how many orders there are (default as many as fit the kills)")
	flags.Uint64Var(&o.Seed, "seed", 0, "chooses orders, refusals and kills (default random, and shown)")
	flags.StringVar(&o.Dir, "dir", "perdure-demo", "directory of the database and the ledger")
	return cmd
}

// typed is what to type for the program that runs: its name where that is on the
// path, else what started it.
func typed(executable, name string) string {
	if found, err := exec.LookPath(name); err == nil && sameFile(found, executable) {
		return name
	}
	info, ok := debug.ReadBuildInfo()
	if ok && strings.HasPrefix(filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(executable)))), "go-build") {
		if below, ok := strings.CutPrefix(info.Path, info.Main.Path+"/"); ok {
			return "go run ./" + below
		}
		return "go run ."
	}
	return os.Args[0]
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(one, other)
}

func newDemoWorker() *cobra.Command {
	return &cobra.Command{
		Use: demo.WorkerCommand, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(os.Interrupt) // Ctrl-C goes to every process of a terminal: the supervisor decides
			return demo.Worker(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func newDemoWorld() *cobra.Command {
	return &cobra.Command{
		Use: demo.WorldCommand, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(os.Interrupt)
			return demo.World(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
