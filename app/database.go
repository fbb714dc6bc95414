package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

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
	was   fs.FileInfo // the file, when it was opened
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
	if err := d.check(); err != nil {
		return nil, err
	}
	s, err := sqlite.OpenWith(d.file, o)
	if err != nil {
		return nil, d.explain(err)
	}
	c, err := perdure.NewClient(ctx, s)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	was, err := os.Stat(d.file)
	if err != nil {
		return nil, errors.Join(d.explain(err), s.Close())
	}
	return &client{c, s, d, was}, nil
}

// check refuses a name that is none, as --db "$UNSET" gives, and what is not a file.
func (d *database) check() error {
	e := &perdure.Error{Code: journal.CodeInvalid, Op: "open " + d.file, Hint: "--db FILE or " + databaseEnv + " names the database"}
	if d.file == "" {
		e.Op, e.Message = "open the database", "its name is empty"
		return e
	}
	if info, err := os.Stat(d.file); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		e.Code, e.Message = journal.CodeUnavailable, "it is not a file"
		return e
	}
	return nil
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

// engines tells of the engine that has the database; none where nobody has it. A
// file that was removed meanwhile has none that could be told of.
func (c *client) engines(ctx context.Context) ([]store.Engine, error) {
	if now, err := os.Stat(c.db.file); err != nil || !os.SameFile(now, c.was) {
		return nil, &perdure.Error{Code: journal.CodeUnavailable, Op: "read " + c.db.file, Message: "the file was removed or replaced", Hint: "an engine that still has it must be stopped: what it does will be lost"}
	}
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

// command is one that works on this database, for people to type.
func (c *client) command(words string) string {
	return c.db.program.name + " " + words + " --db " + c.db.file
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

// patience is how long an interrupted command may go on, to end in order.
const patience = time.Second

// using opens the database, has do use it, and closes it. It does not wait for a
// database that somebody has locked once it is interrupted.
func using(cmd *cobra.Command, open opener, do func(context.Context, *client) error) error {
	ctx, done := cmd.Context(), make(chan error, 1)
	go func() {
		c, err := open(ctx)
		if err == nil {
			err = do(ctx, c)
			c.close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return fmt.Errorf("%w: the database is busy; what was to be done may yet have been done", errInterrupted)
	}
}
