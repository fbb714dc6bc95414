package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/app/internal/config"
	"github.com/perdure/perdure/app/internal/serving"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

func (p *program) newServe() *cobra.Command {
	var file string
	var print bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Execute the workflows of this program, and serve the API, until interrupted",
		Long: `Opens the database, or makes it, and executes the runs of the workflows of this
program. It begins with the runs that an earlier process left. It serves the API over
HTTP at --addr: see /docs there. On an interrupt, steps in flight have ten seconds to
end.

An SQLite file is for one serve at a time. On PostgreSQL any number of them, on any
number of machines, share the runs. When one dies, the others continue its runs
after its lease: 10 seconds, or ?lease=5s in the URL. ?pooler=on is for a connection
pooler in transaction mode. Other commands may use the database meanwhile.

The configuration is a file of YAML, variables, and flags, in growing strength.
--print-config shows each key with its value and where the value comes from. On another
address than this machine's own, the API needs credentials: "tokens new" makes them.

It sends the alerts that "alerts set" asks for. A program that registers alert.Workflow
itself has its own options instead.`,
		Example: `  perdure serve
  perdure serve --store /var/lib/shop/orders.db --log json
  perdure serve --store postgres://shop@db.internal/shop --addr off
  perdure serve --config /etc/shop/perdure.yaml --print-config`,
		Args: exactly(),
	}
	db := p.databaseOr(cmd, place.Default, itself, "./perdure.db")
	flags := cmd.Flags()
	flags.StringVar(&file, "config", "", "file of the configuration (default "+config.FileEnv+
		")")
	flags.BoolVar(&print, "print-config", false, "show the configuration, and do nothing else")
	flags.String("addr", "", "address of the API, HOST:PORT, or off (default 127.0.0.1:7433, "+
		"or a free port if that one is taken)")
	flags.Int("capacity", 0, "number of runs in memory at a time (default 10,000)")
	flags.String("log", "", "format of the log on stderr: text, json or off (default text)")
	flags.StringSlice("webhook-internal", nil,
		"internal networks that webhooks may go to, such as 10.1.0.0/16")
	completeWords(cmd, "log", "text", "json", "off")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if file == "" {
			file = os.Getenv(config.FileEnv)
		}
		set := flagged(cmd)
		if db.chosen() {
			set["store"] = db.text
		}
		c, values, err := config.Load(file, os.Environ(), set)
		if err != nil {
			return err
		}
		if print {
			return printConfig(cmd.OutOrStdout(), values)
		}
		if len(p.workflows) == 0 {
			return &perdure.Error{
				Code: journal.CodeInvalid, Op: "serve", Message: "this program has no workflows",
				Hint: "an application gives them to app.Main; examples/orders is one: go run " +
					"./examples/orders serve. perdure dev has samples",
			}
		}
		_, chosen := set["listen.address"]
		isDefault := slices.ContainsFunc(values, func(v config.Value) bool {
			return v.Key.Name == "listen.address" && v.From == "default"
		})
		if err := p.useOrchestrators(cmd.Context(), c.Orchestrators); err != nil {
			return err
		}
		return p.serve(cmd, c, values, !chosen && isDefault)
	}
	return cmd
}

// useOrchestrators calls the application with where the states of orchestrators are kept.
func (p *program) useOrchestrators(ctx context.Context, in config.Orchestrators) error {
	switch {
	case p.orchestrators != nil:
		return p.orchestrators(ctx, Orchestrators(in))
	case in.Redis != "":
		return &perdure.Error{
			Code: journal.CodeInvalid, Op: "configuration",
			Message: "orchestrators.redis is set, and this program keeps no orchestrators there",
			Hint:    "take it out; a program that uses it sets app.Application.Orchestrators",
		}
	}
	return nil
}

// flagged returns the values of the flags that were given, by the names of their keys.
func flagged(cmd *cobra.Command) map[string]string {
	set := map[string]string{}
	for _, k := range config.Keys() {
		name := k.Flag
		f := cmd.Flags().Lookup(name)
		if name == "" || f == nil || !f.Changed {
			continue
		}
		set[k.Name] = strings.Trim(f.Value.String(), "[]")
	}
	return set
}

// serve executes workflows and serves the API until an interrupt.
func (p *program) serve(cmd *cobra.Command, c config.Config, values []config.Value,
	anyPort bool) error {
	log, workflows := cmd.ErrOrStderr(), p.workflows
	at, err := place.Parse(p.name, c.Store)
	if err != nil {
		return err
	}
	return serving.Run(cmd.Context(), serving.Options{
		Config: c, Values: values, Program: p.name, Workflows: workflows,
		Alerts: alerts(workflows), AnyPort: anyPort, Log: log,
		Begun: func(url string) {
			fmt.Fprintf(log, "%s executes %s on %s; an interrupt ends it\n", p.name,
				strings.Join(namesOf(workflows), ", "), at)
			if url != "" {
				fmt.Fprintf(log, "the API is at %s: %s/docs describes it\n", url, url)
			}
		},
		Ending: func() {
			fmt.Fprintln(log, "it ends when the steps in flight have, within "+
				c.Engine.Drain.String()+"; another interrupt ends it now")
		},
	})
}

// printConfig prints the keys with their values, and where the values come from.
func printConfig(w io.Writer, values []config.Value) error {
	return table(w, values, []column[config.Value]{
		{"KEY", func(v config.Value) string { return v.Key.Name }},
		{"VALUE", func(v config.Value) string { return v.Text }},
		{"FROM", func(v config.Value) string { return v.From }},
		{"VARIABLE", func(v config.Value) string { return v.Key.Env }},
	})
}

// alerts reports whether workflows have one that alerts.
func alerts(workflows []perdure.Definition) bool {
	e, err := perdure.New(memory.New(), perdure.Options{Build: "check"})
	return err == nil && e.Register(append(slices.Clip(workflows),
		alert.Workflow(alert.Options{}))...) != nil
}

// namesOf returns the names of workflows, sorted. They were registered once, so they are valid.
func namesOf(workflows []perdure.Definition) (names []string) {
	e, err := perdure.New(memory.New(), perdure.Options{Build: "check"})
	if err != nil || e.Register(workflows...) != nil {
		return nil
	}
	for _, w := range e.Workflows() {
		names = append(names, w.Name)
	}
	return names
}
