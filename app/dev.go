package app

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/app/internal/config"
	"github.com/perdure/perdure/app/internal/dev"
	"github.com/perdure/perdure/app/internal/sample"
	"github.com/perdure/perdure/app/internal/serving"
)

// devFolder is the folder of dev, unless --dir names another one.
const devFolder = "perdure-dev"

func (p *program) newDev() *cobra.Command {
	var dir, addr string
	var empty bool
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Try it: workflows, the API and a page on this machine, on a database of their own",
		Long: `Executes the workflows of this program, or some samples of every pattern if it has none,
on an SQLite file in the folder --dir, and serves the API and a page for people on this
machine alone. It needs no configuration. If the port is taken, it uses a free one. Its
address is the first line that it prints: open it in a browser. A new database with the
samples begins with some runs of them. What it has done is still there the next time.

The workflows run in a worker, a process of its own. The page has a button that kills it, as
kill -9 does; dev starts another one at once, on the same address and database, which goes on
with the runs.`,
		Example: `  perdure dev
  perdure dev --dir /tmp/try --addr 127.0.0.1:8080`,
		Args: exactly(),
	}
	devFlags(cmd, &dir, &addr, &empty)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		c, _, err := devConfig(dir, addr)
		if err != nil {
			return err
		}
		executable, err := os.Executable()
		if err != nil {
			return err
		}
		return dev.Run(cmd.Context(), dev.Options{
			Executable: executable, Name: p.name, Out: cmd.OutOrStdout(), Log: cmd.ErrOrStderr(),
			Args: func(addr string, again bool) []string {
				args := []string{dev.WorkerCommand, "--dir", dir, "--addr", addr}
				if empty {
					args = append(args, "--empty")
				}
				if again {
					args = append(args, "--again")
				}
				return args
			},
			Addr:  addr,
			Begun: func(url string) { p.welcome(cmd, c, url) },
		})
	}
	return cmd
}

func devFlags(cmd *cobra.Command, dir, addr *string, empty *bool) {
	cmd.Flags().StringVar(dir, "dir", devFolder, "folder of the database")
	cmd.Flags().StringVar(addr, "addr", "127.0.0.1:7433", "address of the API")
	cmd.Flags().BoolVar(empty, "empty", false, "begin without runs of the samples")
}

func devConfig(dir, addr string) (config.Config, []config.Value, error) {
	return config.Load("", nil, map[string]string{
		"store": "sqlite:" + filepath.Join(dir, "perdure.db"), "listen.address": addr,
	})
}

// welcome prints the address, and what there is to try.
func (p *program) welcome(cmd *cobra.Command, c config.Config, url string) {
	workflows := p.workflows
	if len(workflows) == 0 {
		workflows = append(sample.Workflows(), sample.NewTour().Workflow())
	}
	names := namesOf(workflows)
	first := names[0]
	if slices.Contains(names, "greet") {
		first = "greet"
	}
	fmt.Fprintln(cmd.OutOrStdout(), url)
	fmt.Fprintf(cmd.ErrOrStderr(), `open it in a browser: its first page has what to try, and a button that kills the worker
the API is described at %[1]s/docs
it executes %[2]s
on %[3]s; an interrupt ends it
try  curl -d '{"input": "ada"}' -H 'Content-Type: application/json' \
       %[1]s/api/orchestration/workflows/%[4]s/start
     %[5]s runs list --store %[1]s
`, url, strings.Join(names, ", "), c.Store, first, p.name)
}

// newDevWorker is the command of the process that executes the workflows of dev.
func (p *program) newDevWorker() *cobra.Command {
	var dir, addr string
	var empty, again bool
	cmd := &cobra.Command{Use: dev.WorkerCommand, Hidden: true, Args: cobra.NoArgs}
	devFlags(cmd, &dir, &addr, &empty)
	cmd.Flags().BoolVar(&again, "again", false, "another worker had the address before")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		w, err := dev.NewWorker(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		if err != nil {
			return err
		}
		c, values, err := devConfig(dir, addr)
		if err != nil {
			return err
		}
		log := cmd.ErrOrStderr()
		o := serving.Options{
			Config: c, Values: values, Program: p.name, Workflows: p.workflows, AnyPort: !again,
			Log:   log,
			Begun: w.Begun, Kill: w.Kill,
			Ending: func() { fmt.Fprintln(log, "it ends when the steps in flight have") },
		}
		if len(o.Workflows) == 0 {
			o.Config.Log.Level = slog.LevelWarn // the address stays in sight
			tour := sample.NewTour()
			o.Workflows = append(sample.Workflows(), tour.Workflow())
			if !empty {
				o.Beside = tour.Begin
			}
		}
		o.Alerts = alerts(o.Workflows)
		if err := p.useOrchestrators(cmd.Context(), c.Orchestrators); err != nil {
			return err
		}
		return serving.Run(w.Context(), o)
	}
	return cmd
}
