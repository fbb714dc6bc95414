package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/update"
)

func newRunsUpdate(db *database) *cobra.Command {
	var key string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "update ID NAME",
		Short: "Send a run a message, and print its reply",
		Long: `Sends an update to the open run of ID, waits for the reply, and prints it as JSON. A refusal
is an error, with exit code 1. Without an open run nothing is sent.

If --timeout is over, the run may still do what was asked: the same command with the same
--key prints the reply, and sends nothing twice.`,
		Example: `  perdure runs update auction-7 raise -i '{"cents":500}'
  perdure runs update auction-7 raise -f bid.json --key bid-17 --timeout 10s`,
		Args: exactly("ID", "NAME"),
	}
	in := newInput(cmd, "the message")
	out := newOutput(cmd)
	cmd.Flags().StringVar(&key, "key", "", "idempotency key: the same key has the same reply")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "time to wait; 0 for no limit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w := waiter{out: out, timeout: timeout}
		if err := w.check(); err != nil {
			return err
		}
		data, err := in.read(cmd)
		if err != nil {
			return err
		}
		var opts []perdure.SendOption
		if key != "" {
			opts = append(opts, perdure.SendKey(key))
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			h, err := c.find(ctx, args[0])
			if err != nil {
				return err
			}
			if !h.Status.IsTerminal() {
				if err := c.warnOf(ctx, cmd.ErrOrStderr(), h.Workflow); err != nil {
					return err
				}
			}
			bounded, cancel := w.bound(ctx)
			defer cancel()
			u := update.New[json.RawMessage, json.RawMessage](args[1], nil)
			got, err := u.Send(bounded, c.Client, string(h.ID), data, opts...)
			if err != nil {
				return w.unreplied(bounded, err)
			}
			return one(out, cmd.OutOrStdout(), api.Data(got), func(to io.Writer) error {
				_, err := escaper{to}.Write(append(got, '\n'))
				return err
			})
		})
	}
	completeWaits(cmd, db, journal.WaitSignal)
	return cmd
}

// unreplied returns the error of an update without a reply, or with a refusal.
func (w *waiter) unreplied(ctx context.Context, err error) error {
	var e *perdure.Error
	known, own := err.(*perdure.Error) //nolint:errorlint // a refusal is another error
	switch {
	case !own: // the run's own error, whatever its code
		return endedWith(journal.Failed, fmt.Errorf("refused: %w", err))
	case errors.Is(context.Cause(ctx), errWaited) && errors.As(err, &e):
		return &perdure.Error{
			Code: journal.CodeTimedOut, Err: errWaited, Hint: e.Hint,
			Message: fmt.Sprintf("there is no reply within %v", w.timeout),
		}
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errInterrupted, err)
	}
	return known
}
