package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/schedule"
)

func (p *program) newServe() *cobra.Command {
	var capacity int
	var log string
	cmd := &cobra.Command{
		Use: "serve", Aliases: []string{"dev"},
		Short: "Execute the workflows of this program until interrupted",
		Long: `Opens the database, or makes it, and executes the runs of the workflows of this
program. It begins with the runs that an earlier process left. On an interrupt,
steps in flight have ten seconds to end.

An SQLite file is for one serve at a time. On PostgreSQL any number of them, on any
number of machines, share the runs. When one dies, the others continue its runs
after its lease: 10 seconds, or ?lease=5s in the URL. ?pooler=on is for a connection
pooler in transaction mode. Other commands may use the database meanwhile.`,
		Example: `  perdure serve
  perdure serve --store /var/lib/shop/orders.db --log json
  perdure serve --store postgres://shop@db.internal/shop`,
		Args: exactly(),
	}
	db := p.database(cmd)
	cmd.Flags().IntVar(&capacity, "capacity", 0,
		"number of runs in memory at a time (default 10,000)")
	cmd.Flags().StringVar(&log, "log", "text", "format of the log on stderr: text, json or off")
	completeWords(cmd, "log", "text", "json", "off")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(p.workflows) == 0 {
			return &perdure.Error{
				Code: journal.CodeInvalid, Op: "serve", Message: "this program has no workflows",
				Hint: "an application gives them to app.Main; examples/orders is one: go run " +
					"./examples/orders serve",
			}
		}
		logger, err := newLogger(log, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		at, err := db.place()
		if err != nil {
			return err
		}
		s, err := at.Open(cmd.Context(), place.Engine)
		if err != nil {
			return err
		}
		defer s.Close()
		engine, err := perdure.New(s, perdure.Options{
			Capacity: capacity, Observers: logger, Logger: slog.New(slog.DiscardHandler),
		})
		if err == nil {
			err = engine.Register(append(slices.Clip(p.workflows), schedule.Workflow(),
				batch.Workflow())...)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s executes %s on %s; an interrupt ends it\n", p.name,
			strings.Join(p.names(), ", "), at)
		stop := context.AfterFunc(cmd.Context(), func() {
			fmt.Fprintln(cmd.ErrOrStderr(), "it ends when the steps in flight have, within ten "+
				"seconds; another interrupt ends it now")
		})
		defer stop()
		return at.Explain(engine.Run(cmd.Context()))
	}
	return cmd
}

// names returns the names of the program's workflows.
func (p *program) names() []string {
	names := make([]string, len(p.known))
	for i, w := range p.known {
		names[i] = w.Name
	}
	return names
}

// newLogger returns observers that log to w.
func newLogger(format string, w io.Writer) ([]observe.Observer, error) {
	var handler slog.Handler
	switch format {
	case "text":
		handler = slog.NewTextHandler(w, nil)
	case "json":
		handler = slog.NewJSONHandler(w, nil)
	case "off":
		return nil, nil
	default:
		return nil, &perdure.Error{
			Code: journal.CodeInvalid, Op: "serve", Message: "there is no log " + format,
			Hint: "--log is text, json or off",
		}
	}
	return []observe.Observer{observe.Log(slog.New(handler), slog.LevelInfo)}, nil
}
