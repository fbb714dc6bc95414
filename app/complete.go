package app

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// addCompletion adds the command completion, which writes the completion script of a shell,
// with examples.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Short = "Write what a shell needs to complete commands, runs and workflows"
		c.Example = "  perdure completion bash > /etc/bash_completion.d/" + root.Name()
		for _, shell := range c.Commands() {
			shell.Short = "Write it for " + shell.Name()
			shell.Example = "  perdure completion " + shell.Name()
		}
	}
}

// A completions function returns the words that the shell may offer, and none on an error.
type completions func(context.Context, *client) []string

func completeRuns(cmd *cobra.Command, db *database) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string,
		cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return db.offer(cmd, typed, func(ctx context.Context, c *client) []string {
			return append(c.ids(ctx), latest)
		})
	}
}

func completeFlag(cmd *cobra.Command, db *database, flag string, of completions) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string,
		typed string) ([]string, cobra.ShellCompDirective) {
		return db.offer(cmd, typed, of)
	}) // an unknown flag is an error, and completes nothing
}

// completeWords completes a flag whose value is one of these words.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	// an unknown flag is an error
	_ = cmd.RegisterFlagCompletionFunc(
		flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// completeWaits completes the arguments of a command about a run and one of its waits: the
// ID, the name, and for a decision the choice.
func completeWaits(cmd *cobra.Command, db *database, kind journal.WaitKind) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string,
		cobra.ShellCompDirective) {
		return db.offer(cmd, typed, func(ctx context.Context, c *client) (words []string) {
			if len(args) == 0 {
				return append(c.ids(ctx), latest)
			}
			h, err := c.find(ctx, args[0])
			if err != nil {
				return nil
			}
			waits, err := c.waits(ctx, h, kind)
			if err != nil {
				return nil
			}
			for _, w := range waits {
				switch {
				case len(args) == 1 && kind == journal.WaitDecision:
					words = append(words, w.Path)
				case len(args) == 1:
					words = append(words, nameOf(w))
				case len(args) == 2 && (w.Path == args[1] || nameOf(w) == args[1]):
					words = append(words, w.Choices...)
				}
			}
			return words
		})
	}
}

// offer returns the words of the completions that begin with the typed text.
func (d *database) offer(cmd *cobra.Command, typed string, of completions) ([]string,
	cobra.ShellCompDirective) {
	var out []string
	err := using(cmd, d.read, func(ctx context.Context, c *client) error {
		for _, word := range of(ctx, c) {
			if strings.HasPrefix(word, typed) {
				out = append(out, word)
			}
		}
		return nil
	})
	if err != nil { // a shell does not show the error
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// workflowNames returns the names of the program's workflows and of the workflows of
// the newest runs.
func (d *database) workflowNames(ctx context.Context, c *client) []string {
	names := map[string]bool{}
	for _, w := range d.program.known {
		names[w.Name] = true
	}
	heads, _, err := c.List(ctx, perdure.Query{Limit: 1000})
	if err == nil {
		for _, h := range heads {
			names[h.Workflow] = true
		}
	}
	return sorted(names)
}
