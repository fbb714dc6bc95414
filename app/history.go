package app

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/journal"
)

func newRunsHistory(db *database) *cobra.Command {
	var from int64
	var limit int
	cmd := &cobra.Command{
		Use:   "history ID",
		Short: "Show the journal of a run: one line for each entry",
		Example: `  perdure runs history ord-1001
  perdure runs history ord-1001 -o jsonl | jq 'select(.error)'`,
	}
	out := newOutput(cmd)
	cmd.Flags().Int64Var(&from, "from", 1, "begin at this entry")
	cmd.Flags().IntVar(&limit, "limit", 0, "number of entries; 0 for all")
	return aboutRun(db, cmd, out.check, db.read, func(ctx context.Context, c *client,
		h journal.Head) error {
		if from < 1 || limit < 0 {
			return usage(cmd, "--from is 1 or more, and --limit 0 or more")
		}
		all, err := c.History(ctx, string(h.ID), 1, 0)
		entries := make([]api.Entry, 0, len(all))
		for of, i := api.JournalOf(h), 0; i < len(all); i++ {
			if e := of.Entry(all[i]); e.Seq >= from && (limit == 0 || len(entries) < limit) {
				entries = append(entries, e)
			}
		}
		if printed := list(out, cmd.OutOrStdout(), entries, entryColumns); err == nil {
			err = printed
		}
		return err // the error of an unreadable row comes after the rows before it
	})
}

var entryColumns = []column[api.Entry]{
	{"SEQ", func(e api.Entry) string { return strconv.FormatInt(e.Seq, 10) }},
	{"AT", func(e api.Entry) string { return e.At.Format("2006-01-02T15:04:05.000Z") }},
	{"FACT", func(e api.Entry) string { return e.Kind }},
	{"OPERATION", func(e api.Entry) string { return e.Operation }},
	{"DETAIL", detail},
}

// detail returns a short text of the other fields of an entry, without kind and operation.
func detail(e api.Entry) string {
	var parts []string
	add := func(part string) {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if e.Attempt > 0 {
		add("attempt " + strconv.Itoa(e.Attempt))
	}
	if e.TookMS > 0 {
		add(took(millis(e.TookMS)))
	}
	if !e.Due.IsZero() {
		add("due " + moment(e.Due))
	}
	if kind := strings.ToUpper(strings.TrimPrefix(e.Kind, "Run")); !strings.HasPrefix(
		strings.ReplaceAll(e.Status, "_", ""), kind) {
		if s, ok := journal.ParseStatus(e.Status); ok && s.IsTerminal() {
			add(strings.ToLower(e.Status)) // RunFailed may belong to a run that ends as COMPENSATED
		}
	}
	if e.Kind == journal.VersionMarked.String() {
		add("version " + strconv.Itoa(e.Version))
	}
	add(strings.ToLower(e.Outcome))
	add(e.Event)
	if add(e.Stream); e.Void {
		add("void from " + strconv.FormatInt(e.Part, 10) + " on")
	}
	add(strings.Join(e.Choices, " or "))
	add(e.Other)
	if e.Skipped {
		add("skipped")
	}
	add(e.Action)
	if add(errorText(e.Error)); e.Error == nil || e.Error.Message != e.Reason {
		add(bySomebody(e.By, e.Reason))
	} else {
		add(bySomebody(e.By, ""))
	}
	if string(e.Data) != "null" {
		add(string(e.Data))
	}
	return strings.Join(parts, "  ")
}

func newRunsExport(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export ID",
		Short: "Write the journal of a run for a replay test",
		Long: `Writes the whole journal with all its payloads, as perduretest.ReplayFile reads
it: does new code still fit what production has recorded?`,
		Example: "  perdure runs export ord-1001 > testdata/ord-1001.jsonl",
	}
	return aboutRun(db, cmd, (*output)(nil).check, db.read, func(ctx context.Context, c *client,
		h journal.Head) error {
		entries, err := c.History(ctx, string(h.ID), 1, 0)
		if err != nil {
			return err
		}
		return journal.Write(cmd.OutOrStdout(), entries)
	})
}

// bySomebody returns a reason with the operator who had it.
func bySomebody(operator, reason string) string {
	switch {
	case operator == "":
		return reason
	case reason == "":
		return "by " + operator
	}
	return "by " + operator + ": " + reason
}

// millis returns the duration of a field in milliseconds.
func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
