package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

const (
	databaseEnv     = "PERDURE_DB"
	defaultDatabase = "perdure.db"
)

// A database is the one that a command is about.
type database struct {
	program *program
	file    string
}

// database gives a command the flag that names its database.
func (p *program) database(cmd *cobra.Command) *database {
	d := &database{program: p}
	file := cmp.Or(os.Getenv(databaseEnv), defaultDatabase)
	cmd.PersistentFlags().StringVar(&d.file, "db", file, "the database file; without it "+databaseEnv+", else ./"+defaultDatabase)
	return d
}

// A client is one of a database that is open.
type client struct {
	*perdure.Client
	store *sqlite.Store
	db    *database
}

// read opens the database for reading: nothing of it is changed.
func (d *database) read(ctx context.Context) (*client, error) {
	return d.open(ctx, sqlite.Options{ReadOnly: true})
}

// write opens the database to start runs and send messages, beside an engine or
// while nothing runs.
func (d *database) write(ctx context.Context) (*client, error) {
	return d.open(ctx, sqlite.Options{Existing: true})
}

func (d *database) open(ctx context.Context, o sqlite.Options) (*client, error) {
	s, err := sqlite.OpenWith(d.file, o)
	if err != nil {
		return nil, d.explain(err)
	}
	c, err := perdure.NewClient(ctx, s)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &client{c, s, d}, nil
}

func (c *client) close() { _ = c.store.Close() } // what was written is durable already

// explain says what to do about a database that cannot be opened.
func (d *database) explain(err error) error {
	e := &perdure.Error{Code: journal.CodeUnavailable, Op: "open " + d.file, Err: err, Hint: "--db FILE or " + databaseEnv + " names the database"}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Message, e.Err = "there is no such file", nil
		e.Hint += fmt.Sprintf("; %s db migrate --db %s makes it, and so does serve", d.program.name, d.file)
	case errors.Is(err, store.ErrOlder):
		e.Hint = fmt.Sprintf("%s db migrate --db %s brings it to this version", d.program.name, d.file)
	case errors.Is(err, store.ErrNewer):
		e.Hint = "use the version of the program that wrote it, or a newer one"
	}
	return e
}

// engines tells of the engine that has the database; none where nobody has it.
func (c *client) engines(ctx context.Context) ([]store.Engine, error) {
	info, err := c.store.Info(ctx)
	if err != nil {
		return nil, &perdure.Error{Code: journal.CodeUnavailable, Op: "read " + c.db.file, Err: err}
	}
	var alive []store.Engine
	for _, e := range info.Engines {
		if !e.Fallen {
			alive = append(alive, e)
		}
	}
	return alive, nil
}

// noEngine says what to do where no engine has the database.
func (d *database) noEngine() string {
	who := "the program that has their workflows executes them"
	if len(d.program.workflows) > 0 {
		who = fmt.Sprintf("%s serve --db %s executes them", d.program.name, d.file)
	}
	return fmt.Sprintf("no engine has %s: %s", d.file, who)
}

// An opener opens a database: read or write.
type opener func(context.Context) (*client, error)

// using opens the database, has do use it, and closes it.
func using(cmd *cobra.Command, open opener, do func(context.Context, *client) error) error {
	c, err := open(cmd.Context())
	if err != nil {
		return err
	}
	defer c.close()
	return do(cmd.Context(), c)
}
