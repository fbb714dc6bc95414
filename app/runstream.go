package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/stream"
)

func newRunsStream(db *database) *cobra.Command {
	var after int64
	var now bool
	cmd := &cobra.Command{
		Use:   "stream ID NAME",
		Short: "Show what the steps of a run put into a stream, until the run ends",
		Long: `Shows the chunks of a stream, one on each line, and those that come, until the run ends.
With --now it shows what counts now. If a step is tried again, what its attempt before
has put in does not count any more: a line names the offset that it began at.`,
		Example: `  perdure runs stream q-1 words
  perdure runs stream q-1 words --now -o jsonl`,
		Args: exactly("ID", "NAME"),
	}
	out := newOutput(cmd)
	cmd.Flags().Int64Var(&after, "after", 0, "begin after this offset")
	cmd.Flags().BoolVar(&now, "now", false, "do not wait for chunks that come")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			h, err := c.find(ctx, args[0])
			if err != nil {
				return err
			}
			s := stream.New[json.RawMessage](args[1])
			if now {
				p, err := s.Read(ctx, c, string(h.ID), after, 0)
				if err != nil {
					return err
				}
				return printChunks(out, cmd.OutOrStdout(), p.Chunks...)
			}
			for chunk, err := range s.Follow(ctx, c, string(h.ID), after) {
				if err == nil {
					err = printChunks(out, cmd.OutOrStdout(), chunk)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	completeRuns(cmd, db)
	return cmd
}

// printChunks prints chunks: each as JSON, or as a line of its own.
func printChunks(out *output, w io.Writer, chunks ...stream.Chunk[json.RawMessage]) error {
	for _, c := range chunks {
		record := present.Chunk(c)
		if err := one(out, w, record, func(w io.Writer) error {
			text := string(c.Value)
			if c.Void {
				text = fmt.Sprintf("-- void from %d on", c.Part)
			}
			_, err := fmt.Fprintln(w, clean(text))
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
