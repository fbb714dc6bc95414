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
		Short: "Kill a worker again and again, and prove that nothing is lost or repeated",
		Long: `Executes the workflows of the examples (orders, transfers, an approval, a report,
an agent and a subscription) in a worker process on the SQLite file
DIR/perdure.db. The demo kills the worker with SIGKILL when an effect on the
outside world has begun and its result is not stored yet, and starts another
one. The outside world is a process of its own. It writes every call that it
gets into DIR/ledger.jsonl, repeated calls too. The checks at the end are judged
from that ledger.

With --cluster, several workers share the runs on a PostgreSQL. One of five is
paused for longer than its lease instead of killed. Other workers take over its
runs. On a PostgreSQL the demo makes a database perdure_demo_… beside the one
that --store names, and touches nothing else. The next demo in DIR drops it.

The demo removes the files of an earlier demo in DIR. Without --once the last
worker goes on until it is interrupted: use the command line on its file
meanwhile. On a terminal, keys approve the expense and stop the subscription.`,
		Example: `  perdure demo                             then press a, s, q
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
			// An SQLite file or a server of the environment variable is not the demo's.
			if o.Store = at; at.FromEnv && (at.Kind == place.SQLite || at.Kind == place.Server) {
				o.Store = place.Place{}
			} else if err := at.Itself("demo"); err != nil {
				return err
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
	db = p.databaseOr(cmd, "sqlite:", itself, "DIR/perdure.db")
	flags := cmd.Flags()
	flags.BoolVar(&o.Once, "once", false, "end after the checks")
	flags.IntVar(&o.Kills, "kills", 3, "number of kills")
	flags.IntVar(&o.Cluster, "cluster", 1, "number of workers at a time; several need a PostgreSQL")
	flags.IntVar(&o.Orders, "orders", 0, "number of orders (default as many as fit the kills)")
	flags.Uint64Var(&o.Seed, "seed", 0, "seed of orders, refusals and kills (default random, "+
		"and shown)")
	flags.StringVar(&o.Dir, "dir", "perdure-demo", "directory of the database and the ledger")
	return cmd
}

// typed returns the command that starts this program: its name if that is on the path, else
// the command that started it.
func typed(executable, name string) string {
	if found, err := exec.LookPath(name); err == nil && sameFile(found, executable) {
		return name
	}
	info, ok := debug.ReadBuildInfo()
	if ok && strings.HasPrefix(filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(executable)))),
		"go-build") {
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
			// Ctrl-C goes to every process of a terminal: the supervisor decides.
			signal.Ignore(os.Interrupt)
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
