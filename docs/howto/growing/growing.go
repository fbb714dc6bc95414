// Package howto is the code of the page about growing from SQLite to PostgreSQL.
package howto

import (
	"context"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
)

// A Store is a store that is closed after the engine has returned.
type Store interface {
	store.Store
	Close() error
}

// Open opens the database that an address names: a URL of PostgreSQL, or an SQLite file.
func Open(ctx context.Context, address string) (Store, error) {
	if strings.HasPrefix(address, "postgres://") {
		return postgres.Open(ctx, address)
	}
	return sqlite.Open(address)
}

// Greet is the workflow: it does not know which database it is on.
var Greet = perdure.Define("greet", func(ctx context.Context, name string) (string, error) {
	return perdure.Step(ctx, "write", func(context.Context) (string, error) {
		return "Hello, " + name, nil
	})
})

// Work runs an engine on the database that an address names, until ctx ends.
func Work(ctx context.Context, address string) error {
	db, err := Open(ctx, address)
	if err != nil {
		return err
	}
	defer db.Close()
	engine, err := perdure.New(db, perdure.Options{})
	if err != nil {
		return err
	}
	if err := engine.Register(Greet); err != nil {
		return err
	}
	return engine.Run(ctx)
}

// Ask starts a run from a process that executes nothing, and waits for its result.
func Ask(ctx context.Context, address, name string) (string, error) {
	db, err := Open(ctx, address)
	if err != nil {
		return "", err
	}
	defer db.Close()
	client, err := perdure.NewClient(ctx, db)
	if err != nil {
		return "", err
	}
	run, err := Greet.Start(ctx, client, name)
	if err != nil {
		return "", err
	}
	return run.Result(ctx)
}
