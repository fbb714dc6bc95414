package app

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/server/auth"
)

func (p *program) newTokens() *cobra.Command {
	cmd := group(&cobra.Command{
		Use: "tokens", Short: "Make credentials for the API of a server",
		Example: "  perdure tokens new ada --role operator",
	})
	cmd.AddCommand(newTokensNew())
	return cmd
}

func newTokensNew() *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use: "new NAME", Short: "Make a token, and the line of the configuration that accepts it",
		Long: `Makes a random token. It is printed once, and kept nowhere: only its hash is in the
configuration. A viewer reads; an operator also starts runs and acts on them; an admin
also sees secrets and manages keys.`,
		Example: "  perdure tokens new ada --role operator",
		Args:    exactly("NAME"),
	}
	cmd.Flags().StringVar(&role, "role", "viewer", "viewer, operator or admin")
	completeWords(cmd, "role", "viewer", "operator", "admin")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, ok := auth.ParseRole(role)
		if !ok {
			return usage(cmd, "--role "+role+" is not valid: it is viewer, operator or admin")
		}
		token, hash := auth.NewToken()
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), token); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "add to auth.tokens: %s:%s:%s\n", args[0], r, hash)
		return err
	}
	return cmd
}
