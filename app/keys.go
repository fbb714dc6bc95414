package app

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
)

func (p *program) newKeys() *cobra.Command {
	cmd := &cobra.Command{
		Use: "keys", Short: "List, rotate and revoke the keys that sign tokens",
		Long: `A database has keys of its own by which the tokens of callbacks and of decisions are signed.
The newest one signs, and all verify. No command shows a secret.`,
		Example: "  perdure keys list\n  perdure keys rotate\n  perdure keys revoke abcdefgh",
	}
	db := p.database(cmd)
	return group(cmd, newKeysList(db),
		changingKeys(db, &cobra.Command{
			Use: "rotate", Short: "Make a key that signs from now on", Args: exactly(),
			Long: `Makes a key. Tokens that other keys have signed stay good until their key is revoked.
The command prints the keys.`,
			Example: "  perdure keys rotate --reason 'once a year'",
		}, func(a *admin.Client, ctx context.Context, _ []string, by admin.Note) error {
			return a.RotateKey(ctx, by)
		}),
		changingKeys(db, &cobra.Command{
			Use: "revoke ID", Short: "Remove a key, and with it all tokens that it has signed",
			Args: exactly("ID"), Example: "  perdure keys revoke abcdefgh --reason 'it leaked'",
		}, func(a *admin.Client, ctx context.Context, args []string, by admin.Note) error {
			return a.RevokeKey(ctx, args[0], by)
		}))
}

func newKeysList(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the keys, without their secrets", Args: exactly(),
		Example: "  perdure keys list -o json",
	}
	out := newOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			return c.showKeys(ctx, cmd, out)
		})
	}
	return cmd
}

func changingKeys(db *database, cmd *cobra.Command,
	do func(*admin.Client, context.Context, []string, admin.Note) error) *cobra.Command {
	var note admin.Note
	out := newOutput(cmd)
	noteFlags(cmd, &note)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			if err := do(admin.New(c.Client), ctx, args, signedNote(note)); err != nil {
				return err
			}
			return c.showKeys(ctx, cmd, out)
		})
	}
	return cmd
}

var keyColumns = []column[api.Key]{
	{"KEY", func(k api.Key) string { return k.ID }},
	{"SIGNS", func(k api.Key) string {
		if k.Signs {
			return "yes"
		}
		return ""
	}},
	{"MADE", func(k api.Key) string { return moment(k.Made) }},
	{"BY", func(k api.Key) string { return k.By }},
	{"REASON", func(k api.Key) string { return k.Reason }},
}

func (c *client) showKeys(ctx context.Context, cmd *cobra.Command, out *output) error {
	keys, err := admin.New(c.Client).Keys(ctx)
	if err != nil {
		return err
	}
	var all []api.Key
	for _, k := range keys {
		all = append(all, present.Key(k))
	}
	return list(out, cmd.OutOrStdout(), all, keyColumns)
}
