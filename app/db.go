package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

func (p *program) newDB() *cobra.Command {
	cmd := &cobra.Command{
		Use: "db", Short: "Show, migrate and back up the database",
		Example: "  perdure db status\n  perdure db backup /backup/orders.db",
	}
	db := p.database(cmd)
	return group(cmd, newDBStatus(db), newDBMigrate(db), newDBBackup(db))
}

func newDBStatus(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Show the schema, the size and the engines of the database",
		Example: "  perdure db status -o json",
		Args:    exactly(),
	}
	out := newOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			info, err := c.info(ctx)
			if err != nil {
				return err
			}
			d := present.Database(c.place.String(), info)
			return one(out, cmd.OutOrStdout(), d, func(w io.Writer) error {
				return printDatabase(w, d)
			})
		})
	}
	return cmd
}

func printDatabase(w io.Writer, d api.Database) error {
	pairs := []string{
		"store", d.Store, "driver", d.Driver, "identity", d.Identity, "schema",
		strconv.Itoa(d.Schema),
		"durability", d.Durability, "size", strconv.FormatInt(d.Bytes, 10) + " bytes", "runs",
		strconv.FormatInt(d.Runs, 10),
		"unrouted signals", strconv.FormatInt(d.Unrouted, 10), "outbox",
		strconv.FormatInt(d.Outbox, 10),
	}
	if len(d.Engines) == 0 {
		pairs = append(pairs, "engine", "none: runs go on when one has it")
	}
	for _, e := range d.Engines {
		text := fmt.Sprintf("process %d on %s, since %s", e.PID, e.Host, e.Since)
		if !e.Alive {
			text = "none: " + text + ", has died; runs go on when another has it"
		} else if e.Drain != nil {
			text += ", drains " + drainText(e)
		}
		pairs = append(pairs, "engine", text)
	}
	return fields(w, pairs...)
}

func newDBMigrate(db *database) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Make the database, or migrate it to the schema of this program",
		Long: `Makes the SQLite file, or in a PostgreSQL the schema perdure, where there is none, and
brings an older one to the schema of this program. There is no way back: take a backup
first. An engine does the same when it starts; no other command does.`,
		Example: "  perdure db backup before.db && perdure db migrate\n  perdure db migrate " +
			"--store postgres://owner@db.internal/shop",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := db.itself("migrate")
			if err != nil {
				return err
			}
			done, err := migrate(cmd.Context(), at)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", at, done)
			return err
		},
	}
}

// migrate makes or migrates a database, and returns a text about the result.
func migrate(ctx context.Context, at place.Place) (done string, err error) {
	made := !at.IsThere()
	var schema *store.SchemaError
	s, err := at.Open(ctx, place.Read)
	if made || errors.As(err, &schema) {
		s, err = at.Open(ctx, place.Engine)
	}
	if err != nil {
		return "", err
	}
	defer s.Close()
	info, err := s.Info(ctx)
	switch {
	case err != nil:
		return "", at.Explain(&perdure.Error{Code: journal.CodeUnavailable, Op: "read " +
			at.String(), Err: err})
	case made, schema != nil && schema.Has == 0 && at.Kind == place.Postgres:
		return fmt.Sprintf("was made: schema %d", info.Schema), nil
	case schema != nil:
		return fmt.Sprintf("was migrated from schema %d to schema %d", schema.Has, info.Schema), nil
	}
	return fmt.Sprintf("is of this version already: schema %d", info.Schema), nil
}

// A backuper is a store in a file, which can write a copy of it.
type backuper interface {
	Backup(ctx context.Context, file string) error
}

func newDBBackup(db *database) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a copy of the database, as it is now",
		Long: `Writes a copy of the database as it is at one moment, also while an engine is at
work. The copy is on disk when the command ends. A file that is there is never
overwritten. Do not copy a database with cp: its log has what it lacks. Of a PostgreSQL
pg_dump makes a copy.`,
		Example: "  perdure db backup /backup/orders-2026-11-21.db",
		Args:    exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := db.itself("backup"); err != nil {
				return err
			}
			return using(cmd, db.read, func(ctx context.Context, c *client) error {
				file, ok := c.store.(backuper)
				if !ok {
					return &perdure.Error{
						Code: journal.CodeInvalid, Op: "backup", Message: c.place.String() +
							" is no file", Hint: "pg_dump makes a copy of a PostgreSQL as it is " +
							"at one moment",
					}
				}
				err := file.Backup(ctx, args[0])
				switch {
				case errors.Is(err, fs.ErrExist):
					return &perdure.Error{
						Code: journal.CodeConflict, Op: "backup", Message: args[0] +
							" is there already", Hint: "name a file that is not",
					}
				case err != nil:
					return &perdure.Error{
						Code: journal.CodeUnavailable, Op: "backup", Err: err,
						Hint: "is there a directory that can be written, with room?",
					}
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is in %s\n", c.place, args[0])
				return err
			})
		},
	}
}
