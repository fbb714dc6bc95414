// Command hello runs a workflow of two steps on the SQLite file hello.db.
package main

import (
	"context"
	"log"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlite"
)

var greet = perdure.Define("greet", func(ctx context.Context, name string) (string, error) {
	text, err := perdure.Step(ctx, "write", func(context.Context) (string, error) {
		return "Hello, " + name, nil
	})
	if err != nil {
		return "", err
	}
	return perdure.Step(ctx, "sign", func(context.Context) (string, error) {
		return text + "!", nil
	})
})

func main() {
	db, err := sqlite.Open("hello.db")
	if err != nil {
		log.Fatal(err)
	}
	engine, err := perdure.New(db, perdure.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := engine.Register(greet); err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(engine.Run(context.Background())) }()

	run, err := greet.Start(context.Background(), engine, "world")
	if err != nil {
		log.Fatal(err)
	}
	log.Println(run.Result(context.Background()))
}
