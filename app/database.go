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
	"github.com/perdure/perdure/app/internal/config"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A database is the database that a command uses, as its flag and the environment name it.
type database struct {
	program   *program
	text      string      // value of the flag
	tokenFile string      // value of the flag that names a file with the token for a server
	config    string      // value of the flag that names the file of the configuration
	isOpened  bool        // the command opens what the configuration names
	chosen    func() bool // reports whether the flag was set
	otherwise string      // default if neither the flag nor the variable is set
}

// database adds the flags --store, --config and --token-file to a command. The default is
// ./perdure.db.
func (p *program) database(cmd *cobra.Command) *database {
	d := p.databaseOr(cmd, place.Default, place.Forms, "./perdure.db")
	d.isOpened = true
	cmd.PersistentFlags().StringVar(&d.config, "config", "", "file of the configuration, for "+
		"the store and the keys of its payloads (default "+config.FileEnv+")")
	cmd.PersistentFlags().StringVar(&d.tokenFile, "token-file", "", "file with the token for a "+
		"server (default "+place.TokenFileEnv+", or the token in "+place.TokenEnv+")")
	return d
}

// The forms of a database that a command uses itself.
const itself = "postgres://USER@HOST/DATABASE, or an SQLite file"

// databaseOr adds the flag --store, with the forms that the command takes and a default, which the
// help describes with inWords. The help does not show the value of the environment variable: it may
// have a password in it.
func (p *program) databaseOr(cmd *cobra.Command, otherwise, forms, inWords string) *database {
	d := &database{program: p, otherwise: otherwise}
	flags := cmd.PersistentFlags()
	flags.StringVar(&d.text, "store", "", "the database: "+forms+" (default "+place.Env+
		", or else "+inWords+")")
	flag := flags.Lookup("store")
	d.chosen = func() bool { return flag.Changed }
	return d
}

// place returns the place of the database: from the flag, else from the environment
// variable, else from the file of the configuration, else the default.
func (d *database) place() (p place.Place, err error) {
	env := os.Getenv(place.Env)
	c, err := d.configured()
	if err != nil {
		return p, err
	}
	switch {
	case d.chosen():
		p, err = place.Parse(d.program.name, d.text)
	case env != "":
		p, err = place.Parse(d.program.name, env)
		p.FromEnv = true
	case c.Store != "":
		p, err = place.Parse(d.program.name, c.Store)
	default:
		p, err = place.Parse(d.program.name, d.otherwise)
	}
	if p.TokenFile = d.tokenFile; err == nil && d.tokenFile != "" && p.Kind != place.Server {
		err = &perdure.Error{
			Code: journal.CodeInvalid, Op: "open " + p.String(),
			Message: "--token-file is for a server, and this is a database",
			Hint:    "leave it out, or name the server with --store http://HOST:PORT",
		}
	}
	return p, err
}

// configured returns what the configuration has for a command that opens a database. The store is
// empty if none is configured.
func (d *database) configured() (config.Database, error) {
	if !d.isOpened {
		return config.Database{}, nil
	}
	return config.LoadDatabase(cmp.Or(d.config, os.Getenv(config.FileEnv)), os.Environ())
}

// itself returns the place of a database for a command that needs the database itself.
func (d *database) itself(what string) (place.Place, error) {
	p, err := d.place()
	if err == nil {
		err = p.Itself(what)
	}
	return p, err
}

// A client is a client of an open database.
type client struct {
	*perdure.Client
	store   store.Store
	program *program
	place   place.Place
	was     fs.FileInfo // the file when it was opened; nil for a server
}

// read opens the database for reading only.
func (d *database) read(ctx context.Context) (*client, error) { return d.open(ctx, place.Read) }

// write opens the database to start runs and send messages. An engine may use the database at the
// same time, but none needs to.
func (d *database) write(ctx context.Context) (*client, error) { return d.open(ctx, place.Write) }

func (d *database) open(ctx context.Context, mode place.Mode) (*client, error) {
	at, err := d.place()
	if err != nil {
		return nil, err
	}
	s, err := d.opened(ctx, at, mode)
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

// opened opens a database, whose payloads may be encrypted. A server decrypts by itself.
func (d *database) opened(ctx context.Context, at place.Place, mode place.Mode) (store.Store,
	error) {
	c, err := d.configured()
	if err != nil {
		return nil, err
	}
	s, err := at.Open(ctx, mode)
	if err != nil || at.Kind == place.Server {
		return s, err
	}
	coded, err := c.Encryption.Wrap(ctx, s)
	if err != nil {
		return nil, errors.Join(at.Explain(err), s.Close())
	}
	return coded, nil
}

func (c *client) close() { _ = c.store.Close() } // written data is durable already

// engines returns the engines that have the database, without expired ones. It fails if the
// file was removed or replaced meanwhile.
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

// info returns the facts of the database and the engines that use it.
func (c *client) info(ctx context.Context) (store.Info, error) {
	info, err := c.store.Info(ctx)
	var refused *perdure.Error
	if err != nil && !errors.As(err, &refused) {
		err = &perdure.Error{
			Code: journal.CodeUnavailable, Op: "read " + c.place.String(), Err: err,
		}
	}
	return info, err
}

// noEngine returns the text that no engine has the database, and which program executes
// runs.
func (c *client) noEngine() string {
	who := "the program that has their workflows executes them"
	if len(c.program.workflows) > 0 {
		who = c.place.Command("serve") + " executes them"
	}
	return fmt.Sprintf("no engine has %s: %s", c.place, who)
}

// An opener opens a database: it is read or write.
type opener func(context.Context) (*client, error)

// patience limits the time in which an interrupted command can end in order.
const patience = time.Second

// using opens the database, calls do, and closes it. After an interrupt it waits for a
// locked database no longer than patience.
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
