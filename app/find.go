package app

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// latest stands for the run that was started last.
const latest = "@latest"

// newest gives the runs of a query, that which was started last first, at most limit,
// 0 for all; and how many more there are. It looks at all: their numbers do not tell,
// each process that starts runs has its own.
func (c *client) newest(ctx context.Context, q perdure.Query, limit int) (runs []journal.Head, more int, err error) {
	q.Limit = 1000
	for {
		heads, next, err := c.List(ctx, q)
		if err != nil {
			return nil, 0, err
		}
		runs = append(runs, heads...)
		if q.After = next; next == 0 || limit > 0 {
			slices.SortStableFunc(runs, func(a, b journal.Head) int { return b.Created.Compare(a.Created) })
		}
		if limit > 0 && len(runs) > limit {
			more += len(runs) - limit
			runs = runs[:limit]
		}
		if next == 0 {
			return runs, more, nil
		}
	}
}

// find gives the run that an ID of the command line means. Where there is none,
// the error names those that are written most alike.
func (c *client) find(ctx context.Context, id string) (journal.Head, error) {
	if id == latest {
		heads, _, err := c.newest(ctx, perdure.Query{}, 1)
		if err == nil && len(heads) == 0 {
			err = &perdure.Error{Code: journal.CodeNotFound, Op: "find " + latest, Message: "there is no run in " + c.place.String()}
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
	_, err = c.Get(ctx, id) // it says why there is none
	var e *perdure.Error
	if errors.As(err, &e) && e.Hint == "" {
		known := *e
		known.Hint = didYouMean(nearest(id, c.ids(ctx)), c.place.Command("runs list")+" lists them")
		return journal.Head{}, &known
	}
	return journal.Head{}, err
}

// didYouMean asks whether one of the words was meant; without any it gives instead.
func didYouMean(near []string, instead string) string {
	if len(near) == 0 {
		return instead
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

// ids gives the IDs of the newest runs.
func (c *client) ids(ctx context.Context) []string {
	heads, _, err := c.List(ctx, perdure.Query{Limit: 1000})
	if err != nil {
		return nil // it is for a hint
	}
	var out []string
	for _, h := range heads {
		out = append(out, h.WorkflowID, string(h.ID))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// nearest gives at most three of the words that a mistyped one may mean, the most
// alike first.
func nearest(typed string, words []string) []string {
	typed = strings.ToLower(typed)
	limit := max(1, min(len(typed)/3, 4))
	type near struct {
		word string
		far  int
	}
	var all []near
	for _, word := range words {
		far := distance(typed, strings.ToLower(word))
		if len(typed) > 2 && strings.HasPrefix(strings.ToLower(word), typed) {
			far = 1
		}
		if far <= limit {
			all = append(all, near{word, far})
		}
	}
	slices.SortStableFunc(all, func(a, b near) int { return cmp.Compare(a.far, b.far) })
	var out []string
	for _, n := range all[:min(len(all), 3)] {
		out = append(out, n.word)
	}
	return out
}

// distance counts the letters to change, add or drop to make b of a
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// aboutRun makes a command that is about one run, which its argument names. Before
// it looks for that, it has check look at the flags.
func aboutRun(db *database, cmd *cobra.Command, check func() error, open opener, do func(context.Context, *client, journal.Head) error) *cobra.Command {
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

// exactly demands the arguments with these names.
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
