package app

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// latest is the ID that stands for the run that was started last.
const latest = "@latest"

// newest returns at most limit runs of a query, newest first, and the cursor that goes on after
// them; zero if there are no more. A limit of 0 means all.
func (c *client) newest(ctx context.Context, q perdure.Query, limit int) (runs []journal.Head,
	next journal.Cursor, err error) {
	for {
		q.Limit = store.MaxLimit
		if limit > 0 {
			q.Limit = min(limit-len(runs), store.MaxLimit)
		}
		heads, next, err := c.List(ctx, q)
		if err != nil {
			return nil, next, err
		}
		if runs = append(runs, heads...); next.IsZero() || len(runs) == limit {
			return runs, next, nil
		}
		q.After = next
	}
}

// pages returns at most limit records of a list, and whether there may be more. A limit of 0 means
// all. Page returns the page behind a cursor, and the next cursor.
func pages[T any](limit int, page func(journal.Cursor) ([]T, journal.Cursor, error)) (all []T,
	more bool, err error) {
	for after := (journal.Cursor{}); ; {
		some, next, err := page(after)
		if err != nil {
			return nil, false, err
		}
		all = append(all, some...)
		if limit > 0 && len(all) >= limit {
			return all[:limit], len(all) > limit || !next.IsZero(), nil
		}
		if after = next; next.IsZero() {
			return all, false, nil
		}
	}
}

// find returns the run that an ID of the command line means. If there is none, the error
// names the most similar IDs.
func (c *client) find(ctx context.Context, id string) (journal.Head, error) {
	if id == latest {
		heads, _, err := c.newest(ctx, perdure.Query{}, 1)
		if err == nil && len(heads) == 0 {
			err = &perdure.Error{
				Code: journal.CodeNotFound, Op: "find " + latest, Message: "there is no run in " +
					c.place.String(),
			}
		}
		if err != nil {
			return journal.Head{}, err
		}
		return heads[0], nil
	}
	statuses, err := c.Statuses(ctx, id)
	if err != nil {
		return journal.Head{}, err
	}
	if statuses[0].Found {
		return statuses[0].Head, nil
	}
	_, err = c.Get(ctx, id) // the error has the reason why there is none
	var e *perdure.Error
	if errors.As(err, &e) && e.Hint == "" {
		known := *e
		known.Hint = didYouMean(nearest(id, c.ids(ctx)), c.place.Command("runs list")+" lists them")
		return journal.Head{}, &known
	}
	return journal.Head{}, err
}

// didYouMean returns the hint that one of the words may have been meant, or instead if
// there are none.
func didYouMean(near []string, instead string) string {
	if len(near) == 0 {
		return instead
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

// ids returns the IDs of the newest runs, and none if they cannot be read.
func (c *client) ids(ctx context.Context) []string {
	heads, _, err := c.List(ctx, perdure.Query{Limit: 1000})
	if err != nil {
		return nil // the IDs are only for a hint
	}
	var out []string
	for _, h := range heads {
		out = append(out, h.WorkflowID, string(h.ID))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// nearest returns at most three of the words that a mistyped word may mean: those with the
// fewest letters to change. Cobra counts the letters, as for mistyped commands. Words with
// a space are left out: cobra takes only the part before the space as the name of a
// command.
func nearest(typed string, words []string) []string {
	commands := &cobra.Command{}
	for _, word := range words {
		if !strings.Contains(word, " ") {
			commands.AddCommand(&cobra.Command{Use: word, Run: func(*cobra.Command, []string) {}})
		}
	}
	for letters := range max(1, min(len(typed)/3, 4)) {
		commands.SuggestionsMinimumDistance = letters + 1
		if near := commands.SuggestionsFor(typed); len(near) > 0 {
			return near[:min(len(near), 3)]
		}
	}
	return nil
}

// aboutRun makes a command about one run, which its argument names. It calls check, which
// checks the flags, before it looks for the run.
func aboutRun(db *database, cmd *cobra.Command, check func() error, open opener,
	do func(context.Context, *client, journal.Head) error) *cobra.Command {
	cmd.Args = exactly("ID")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := check(); err != nil {
			return err
		}
		return using(cmd, open, func(ctx context.Context, c *client) error {
			h, err := c.find(ctx, args[0])
			if err != nil {
				return err
			}
			return do(ctx, c, h)
		})
	}
	completeRuns(cmd, db)
	return cmd
}

// exactly returns a check that there is one argument for each name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return errors.New(names[len(args)] + " is missing")
		case len(args) > len(names):
			return errors.New(args[len(names)] + " is one argument too many")
		}
		return nil
	}
}
