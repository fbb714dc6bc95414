// Package howto is the code of the page about growing from SQLite to PostgreSQL.
package howto

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/open"
)

// Greet is the workflow: it does not know which database it is on.
var Greet = perdure.Define("greet", func(ctx context.Context, name string) (string, error) {
	return perdure.Step(ctx, "write", func(context.Context) (string, error) {
		return "Hello, " + name, nil
	})
})

// Work runs an engine on the database that an address names, until ctx ends.
func Work(ctx context.Context, address string) error {
	db, err := open.Store(ctx, address)
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
	db, err := open.Store(ctx, address)
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
