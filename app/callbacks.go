package app

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/callback"
	"github.com/perdure/perdure/internal/present"
)

func (p *program) newCallbacks() *cobra.Command {
	cmd := &cobra.Command{
		Use: "callbacks", Short: "Answer a run that waits for the holder of a token",
		Long: `A run hands out a token for a wait, to a bank or in a link. These commands do what its
holder may do. A token is for one wait of one run, and the first answer counts.

TOKEN is the token, or - for the standard input, so that no list of processes shows it.`,
		Example: `  perdure callbacks get pdt_AQhhYmNk
  perdure callbacks succeed pdt_AQhhYmNk -i '{"number":7}'
  perdure callbacks fail - --reason 'the card was refused' < token.txt`,
	}
	db := p.database(cmd)
	return group(cmd, newCallbacksGet(db), newCallbacksSucceed(db), newCallbacksFail(db),
		newCallbacksExtend(db))
}

func newCallbacksGet(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "get TOKEN", Short: "Show the wait of a token", Args: exactly("TOKEN"),
		Example: "  perdure callbacks get pdt_AQhhYmNk -o json",
	}
	out := newOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return onToken(cmd, db.read, out, args[0], nil)
	}
	return cmd
}

func newCallbacksSucceed(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "succeed TOKEN", Short: "End the wait of a token with a payload",
		Args:    exactly("TOKEN"),
		Example: `  perdure callbacks succeed pdt_AQhhYmNk -i '{"number":7}'`,
	}
	in := newInput(cmd, "the payload")
	out := newOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := in.read(cmd)
		if err != nil {
			return err
		}
		return onToken(cmd, db.write, out, args[0], func(ctx context.Context, c *client,
			token string) error {
			return callback.Succeed(ctx, c.Client, token, data)
		})
	}
	return cmd
}

func newCallbacksFail(db *database) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "fail TOKEN", Short: "End the wait of a token with an error",
		Args:    exactly("TOKEN"),
		Example: "  perdure callbacks fail pdt_AQhhYmNk --reason 'the card was refused'",
	}
	out := newOutput(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "the text of the error")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return onToken(cmd, db.write, out, args[0], func(ctx context.Context, c *client,
			token string) error {
			return callback.Fail(ctx, c.Client, token, reason)
		})
	}
	return cmd
}

func newCallbacksExtend(db *database) *cobra.Command {
	var by time.Duration
	cmd := &cobra.Command{
		Use: "extend TOKEN", Short: "Move the limit of a wait to a later time",
		Args:    exactly("TOKEN"),
		Example: "  perdure callbacks extend pdt_AQhhYmNk --by 1h",
	}
	out := newOutput(cmd)
	cmd.Flags().DurationVar(&by, "by", time.Hour, "how long from now on the wait lasts at least")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return onToken(cmd, db.write, out, args[0], func(ctx context.Context, c *client,
			token string) error {
			return callback.Heartbeat(ctx, c.Client, token, by)
		})
	}
	return cmd
}

// onToken calls a function, unless it is nil, and shows the wait of the token.
func onToken(cmd *cobra.Command, open opener, out *output, token string,
	do func(context.Context, *client, string) error) error {
	if err := out.check(); err != nil {
		return err
	}
	if token == "-" {
		text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 1<<20))
		if err != nil {
			return err
		}
		token = strings.TrimSpace(string(text))
	}
	return using(cmd, open, func(ctx context.Context, c *client) error {
		if do != nil {
			if err := do(ctx, c, token); err != nil {
				return err
			}
		}
		w, err := callback.Get(ctx, c.Client, token)
		if err != nil {
			return err
		}
		shown := present.Callback(w)
		if err := one(out, cmd.OutOrStdout(), shown, func(out io.Writer) error {
			return printCallback(out, shown)
		}); err != nil || do == nil {
			return err
		}
		return c.warn(ctx, cmd.ErrOrStderr())
	})
}

func printCallback(out io.Writer, shown api.Callback) error {
	state := shown.State
	if shown.State == "open" && shown.Due != nil {
		state += " until " + moment(*shown.Due)
	}
	_, err := fmt.Fprintf(out, "callback %s of run %s: %s\n", shown.Callback, shown.RunID, state)
	return err
}
