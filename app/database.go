package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A database is the one that a command is about.
type database struct {
	program   *program
	text      string      // what the flag was set to
	chosen    func() bool // whether it was
	otherwise string      // what is meant where neither the flag nor the variable says anything
}

// database gives a command the flag that names its database.
func (p *program) database(cmd *cobra.Command) *database {
	return p.databaseOr(cmd, place.Default, "./perdure.db")
}

// databaseOr gives a command the flag, and says what is meant without it. The help
// shows no default: what the variable has may have a password in it.
func (p *program) databaseOr(cmd *cobra.Command, otherwise, inWords string) *database {
	d := &database{program: p, otherwise: otherwise}
	flags := cmd.PersistentFlags()
	flags.StringVar(&d.text, "store", "", "the database: postgres://USER@HOST/DATABASE, or an "+
		"SQLite file (default "+place.Env+", or else "+inWords+")")
	flag := flags.Lookup("store")
	d.chosen = func() bool { return flag.Changed }
	return d
}

// place says where the database is.
func (d *database) place() (place.Place, error) {
	env := os.Getenv(place.Env)
	switch {
	case d.chosen():
		return place.Parse(d.program.name, d.text)
	case env != "":
		p, err := place.Parse(d.program.name, env)
		p.FromEnv = true
		return p, err
	}
	return place.Parse(d.program.name, d.otherwise)
}

// A client is one of a database that is open.
type client struct {
	*perdure.Client
	store   store.Store
	program *program
	place   place.Place
	was     fs.FileInfo // the file, when it was opened; nil of a server
}

// read opens the database for reading: nothing of it is changed.
func (d *database) read(ctx context.Context) (*client, error) { return d.open(ctx, place.Read) }

// write opens the database to start runs and send messages, beside engines or while
// nothing runs.
func (d *database) write(ctx context.Context) (*client, error) { return d.open(ctx, place.Write) }

func (d *database) open(ctx context.Context, mode place.Mode) (*client, error) {
	at, err := d.place()
	if err != nil {
		return nil, err
	}
	s, err := at.Open(ctx, mode)
	if err != nil {
		return nil, err
	}
	c := &client{store: s, program: d.program, place: at}
	if c.Client, err = perdure.NewClient(ctx, s, d.program.workflows...); err == nil &&
		at.Kind == place.SQLite {
		c.was, err = os.Stat(at.File)
	}
	if err != nil {
		return nil, errors.Join(at.Explain(err), s.Close())
	}
	return c, nil
}

func (c *client) close() { _ = c.store.Close() } // what was written is durable already

// engines tells of the engines that have the database; none where nobody has it. A
// file that was removed meanwhile has none that could be told of.
func (c *client) engines(ctx context.Context) ([]store.Engine, error) {
	if now, err := os.Stat(c.place.File); c.was != nil && (err != nil || !os.SameFile(now, c.was)) {
		return nil, &perdure.Error{
			Code: journal.CodeUnavailable, Op: "read " + c.place.String(),
			Message: "the file was removed or replaced",
			Hint:    "an engine that still has it must be stopped: what it does will be lost",
		}
	}
	info, err := c.info(ctx)
	if err != nil {
		return nil, err
	}
	var alive []store.Engine
	for _, e := range info.Engines {
		if !e.Expired {
			alive = append(alive, e)
		}
	}
	return alive, nil
}

// info tells what the database is and who uses it.
func (c *client) info(ctx context.Context) (store.Info, error) {
	info, err := c.store.Info(ctx)
	if err != nil {
		err = &perdure.Error{
			Code: journal.CodeUnavailable, Op: "read " + c.place.String(), Err: err,
		}
	}
	return info, err
}

// noEngine says what to do where no engine has the database.
func (c *client) noEngine() string {
	who := "the program that has their workflows executes them"
	if len(c.program.workflows) > 0 {
		who = c.place.Command("serve") + " executes them"
	}
	return fmt.Sprintf("no engine has %s: %s", c.place, who)
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
			err = c.place.Explain(do(ctx, c))
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
		return fmt.Errorf("%w: the database is busy; what was to be done may yet have been done",
			errInterrupted)
	}
}
