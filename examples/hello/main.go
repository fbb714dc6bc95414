// Command hello runs a workflow of two steps on the SQLite file hello.db.
package main

import (
	"context"
	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlite"
	"log"
)

func main() {
	greet := perdure.Define("greet", func(ctx context.Context, name string) (text string, err error) {
		if text, err = perdure.Step(ctx, "write", func(context.Context) (string, error) { return "Hello, " + name, nil }); err == nil {
			text, err = perdure.Step(ctx, "sign", func(context.Context) (string, error) { return text + "!", nil })
		}
		return text, err
	})
	engine := must(perdure.New(must(sqlite.Open("hello.db")), perdure.Options{}))
	must(greet, engine.Register(greet))
	go func() { log.Fatalln(engine.Run(context.Background())) }()
	log.Println(must(must(greet.Start(context.Background(), engine, "world")).Result(context.Background())))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatalln(err)
	}
	return v
}
