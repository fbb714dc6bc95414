package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/alert/mail"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/store/memory"
)

func (p *program) newServe() *cobra.Command {
	var capacity int
	var log string
	var internal []string
	cmd := &cobra.Command{
		Use: "serve", Aliases: []string{"dev"},
		Short: "Execute the workflows of this program until interrupted",
		Long: `Opens the database, or makes it, and executes the runs of the workflows of this
program. It begins with the runs that an earlier process left. On an interrupt,
steps in flight have ten seconds to end.

An SQLite file is for one serve at a time. On PostgreSQL any number of them, on any
number of machines, share the runs. When one dies, the others continue its runs
after its lease: 10 seconds, or ?lease=5s in the URL. ?pooler=on is for a connection
pooler in transaction mode. Other commands may use the database meanwhile.

It sends the alerts that "alerts set" asks for. PERDURE_ALERT_SECRET is the secret that
signs webhooks, and PERDURE_SMTP the mail server: smtp://USER:PASSWORD@HOST:587?from=ADDRESS,
or smtps with port 465. Webhooks to internal addresses, and by http, go only into the
networks of --webhook-internal. A program that registers alert.Workflow itself has its own
options instead.`,
		Example: `  perdure serve
  perdure serve --store /var/lib/shop/orders.db --log json
  perdure serve --store postgres://shop@db.internal/shop`,
		Args: exactly(),
	}
	db := p.databaseOr(cmd, place.Default, itself, "./perdure.db")
	cmd.Flags().IntVar(&capacity, "capacity", 0,
		"number of runs in memory at a time (default 10,000)")
	cmd.Flags().StringVar(&log, "log", "text", "format of the log on stderr: text, json or off")
	cmd.Flags().StringSliceVar(&internal, "webhook-internal", nil,
		"internal networks that webhooks may go to, such as 10.1.0.0/16")
	completeWords(cmd, "log", "text", "json", "off")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(p.workflows) == 0 {
			return &perdure.Error{
				Code: journal.CodeInvalid, Op: "serve", Message: "this program has no workflows",
				Hint: "an application gives them to app.Main; examples/orders is one: go run " +
					"./examples/orders serve",
			}
		}
		sends, err := alerting(internal)
		if err != nil {
			return err
		}
		logger, err := newLogger(log, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		at, err := db.itself("serve")
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
		if err == nil && !p.alerts() {
			err = engine.Register(alert.Workflow(sends))
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

// alerts reports whether the program has the workflow of alerts itself.
func (p *program) alerts() bool {
	e, err := perdure.New(memory.New(), perdure.Options{Build: "check"})
	return err == nil && e.Register(append(slices.Clip(p.workflows),
		alert.Workflow(alert.Options{}))...) != nil
}

// alerting returns the options of alerts that the environment and the flags set.
func alerting(internal []string) (o alert.Options, err error) {
	o.Secret = []byte(os.Getenv("PERDURE_ALERT_SECRET"))
	for _, text := range internal {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return o, &perdure.Error{
				Code: journal.CodeInvalid, Op: "serve", Message: "--webhook-internal " +
					strconv.Quote(text) + " is not valid: allowed are networks such as 10.1.0.0/16",
			}
		}
		o.Internal = append(o.Internal, p.Masked())
	}
	if server := os.Getenv("PERDURE_SMTP"); server != "" {
		sender, err := mail.New(server)
		if err != nil {
			return o, fmt.Errorf("PERDURE_SMTP: %w", err)
		}
		o.Mail = sender
	}
	return o, nil
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
