package perdure_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlite"
)

// An order is kept in the application's own table, and its run is started with it:
// both are there, or neither. The run writes to the table exactly once.
func ExampleStepTx() {
	dir, err := os.MkdirTemp("", "orders")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "orders.db")
	store, err := sqlite.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	db, err := sql.Open("sqlite", path)
	if err == nil {
		_, err = db.Exec("create table orders (id text primary key, state text)")
	}
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	tables := sqlite.Transactions(db)
	ship := perdure.Define("ship", func(ctx context.Context, id string) (string, error) {
		return perdure.StepTx(ctx, "mark", tables, func(ctx context.Context, tx *sql.Tx) (string, error) {
			_, err := tx.ExecContext(ctx, "update orders set state = 'shipped' where id = ?", id)
			return id + " is shipped", err
		})
	})

	ctx, stop := context.WithCancel(context.Background())
	engine, err := perdure.New(store, perdure.Options{})
	if err == nil {
		err = engine.Register(ship)
	}
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()

	tx, err := tables.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = tx.Exec("insert into orders values ('ord-1', 'new')")
	var run *perdure.Run[string]
	if err == nil {
		run, err = ship.StartTx(ctx, engine, tx, "ord-1", perdure.ID("ord-1"))
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	var state string
	err = db.QueryRow("select state from orders").Scan(&state)
	fmt.Println(state, err)

	stop()
	<-done
	// Output:
	// ord-1 is shipped <nil>
	// shipped <nil>
}
