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
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

func (p *program) newDB() *cobra.Command {
	cmd := &cobra.Command{
		Use: "db", Short: "Look after the database",
		Example: "  perdure db status\n  perdure db backup /backup/orders.db",
	}
	db := p.database(cmd)
	return group(cmd, newDBStatus(db), newDBMigrate(db), newDBBackup(db))
}

func newDBStatus(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Show what the database is and who uses it",
		Example: "  perdure db status -o json",
		Args:    exactly(),
	}
	out := newOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			info, err := c.store.Info(ctx)
			if err != nil {
				return &perdure.Error{Code: journal.CodeUnavailable, Op: "read " + db.file, Err: err}
			}
			d := databaseOf(db.file, info)
			return one(out, cmd.OutOrStdout(), d, func(w io.Writer) error { return printDatabase(w, d) })
		})
	}
	return cmd
}

func databaseOf(file string, info store.Info) api.Database {
	d := api.Database{
		File: file, Driver: info.Driver, Identity: info.Database, Schema: info.Schema, Durability: info.Durability,
		Bytes: info.Bytes, Runs: info.Runs, Unrouted: info.Unrouted, Owed: info.Owed, Engines: []api.Engine{},
	}
	for _, e := range info.Engines {
		d.Engines = append(d.Engines, api.Engine{ID: int64(e.ID), Host: e.Host, PID: e.PID, Since: moment(e.Since), Build: e.Build, Alive: !e.Fallen})
	}
	return d
}

func printDatabase(w io.Writer, d api.Database) error {
	engine := "none: runs go on when one has it"
	for _, e := range d.Engines {
		engine = fmt.Sprintf("process %d on %s, since %s", e.PID, e.Host, e.Since)
		if !e.Alive {
			engine = "none: " + engine + ", has died; runs go on when another has it"
		}
	}
	return fields(w,
		"file", d.File, "driver", d.Driver, "identity", d.Identity, "schema", strconv.Itoa(d.Schema),
		"durability", d.Durability, "size", strconv.FormatInt(d.Bytes, 10)+" bytes", "runs", strconv.FormatInt(d.Runs, 10),
		"unrouted signals", strconv.FormatInt(d.Unrouted, 10), "owed", strconv.FormatInt(d.Owed, 10), "engine", engine)
}

func newDBMigrate(db *database) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Make the database, or bring it to the schema of this program",
		Long: `Makes the database where there is none, and brings an older one to the schema of
this program. There is no way back: take a backup first. An engine does the same
when it starts.`,
		Example: "  perdure db backup before.db && perdure db migrate",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := db.check(); err != nil {
				return err
			}
			done := "is of this version already"
			s, err := sqlite.OpenWith(db.file, sqlite.Options{ReadOnly: true})
			switch {
			case errors.Is(err, fs.ErrNotExist):
				done = "was made"
			case errors.Is(err, store.ErrOlder):
				done = "was migrated"
			}
			if err != nil {
				s, err = sqlite.Open(db.file)
			}
			if err != nil {
				return db.explain(err)
			}
			defer s.Close()
			info, err := s.Info(cmd.Context())
			if err != nil {
				return db.explain(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s: schema %d\n", db.file, done, info.Schema)
			return err
		},
	}
}

func newDBBackup(db *database) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a copy of the database, as it is now",
		Long: `Writes a copy of the database as it is at one moment, also while an engine is at
work. The copy is on disk when the command ends. A file that is there is never
overwritten. Do not copy a database with cp: its log has what it lacks.`,
		Example: "  perdure db backup /backup/orders-2026-11-21.db",
		Args:    exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return using(cmd, db.read, func(ctx context.Context, c *client) error {
				err := c.store.Backup(ctx, args[0])
				switch {
				case errors.Is(err, fs.ErrExist):
					return &perdure.Error{Code: journal.CodeConflict, Op: "backup", Message: args[0] + " is there already", Hint: "name a file that is not"}
				case err != nil:
					return &perdure.Error{Code: journal.CodeUnavailable, Op: "backup", Err: err, Hint: "is there a directory that can be written, with room?"}
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is in %s\n", db.file, args[0])
				return err
			})
		},
	}
}
