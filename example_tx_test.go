package perdure_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlite"
)

// A warehouse is an application with a table of orders in the file of its runs.
type warehouse struct {
	db     *sql.DB
	engine *perdure.Engine
	close  func()
}

// openWarehouse opens one whose engine executes the workflows that make gives.
func openWarehouse(make func(db *sql.DB) []perdure.Definition) warehouse {
	dir, err := os.MkdirTemp("", "warehouse")
	if err != nil {
		log.Fatal(err)
	}
	path := filepath.Join(dir, "warehouse.db")
	store, err := sqlite.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err == nil {
		_, err = db.Exec("create table orders (id text primary key, state text)")
	}
	if err != nil {
		log.Fatal(err)
	}
	engine, stop := newEngineOn(store, perdure.Options{}, make(db)...)
	return warehouse{db, engine, func() {
		stop()
		if err := errors.Join(db.Close(), store.Close(), os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}}
}

// order adds an order, and does something else in the same transaction.
func (s warehouse) order(id string, do func(tx *sql.Tx) error) {
	ctx, tables := context.Background(), sqlite.Transactions(s.db)
	tx, err := tables.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err = tx.Exec("insert into orders values (?, 'new')", id); err == nil {
		err = do(tx)
	}
	if err == nil {
		err = tables.Commit(ctx, tx)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// result prints what a run has given.
func (s warehouse) result(id string) {
	run, err := s.engine.Get(context.Background(), id)
	if err != nil {
		log.Fatal(err)
	}
	out, err := run.Result(context.Background())
	fmt.Printf("%s %v\n", out, err)
}

// pack is a workflow that waits for what is to be packed.
var pack = perdure.Define("pack", func(ctx context.Context, id string) (string, error) {
	thing, err := Note.Wait(ctx)
	return id + ": " + thing, err
})

func packing(*sql.DB) []perdure.Definition { return []perdure.Definition{pack} }

// What a step writes in a transaction is there exactly once, like its result.
func ExampleStepTx() {
	s := openWarehouse(func(db *sql.DB) []perdure.Definition {
		return []perdure.Definition{perdure.Define("ship", func(ctx context.Context, id string) (string, error) {
			return perdure.StepTx(ctx, "mark", sqlite.Transactions(db), func(ctx context.Context, tx *sql.Tx) (string, error) {
				_, err := tx.ExecContext(ctx, "update orders set state = 'shipped' where id = ?", id)
				return id + " is shipped", err
			})
		})}
	})
	defer s.close()
	s.order("ord-1", func(tx *sql.Tx) error {
		_, err := s.engine.StartTx(context.Background(), tx, "ship", []byte(`"ord-1"`), perdure.ID("ord-1"))
		return err
	})
	s.result("ord-1")
	var state string
	err := s.db.QueryRow("select state from orders").Scan(&state)
	fmt.Println(state, err)
	// Output:
	// "ord-1 is shipped" <nil>
	// shipped <nil>
}

// An order and its run: both are there, or neither.
func ExampleWorkflow_StartTx() {
	s := openWarehouse(packing)
	defer s.close()
	ctx := context.Background()
	s.order("ord-1", func(tx *sql.Tx) error {
		_, err := pack.StartTx(ctx, s.engine, tx, "ord-1", perdure.ID("ord-1"))
		return err
	})
	_, err := Note.Send(ctx, s.engine, "ord-1", "tea")
	fmt.Println(err)
	s.result("ord-1")
	// Output:
	// <nil>
	// "ord-1: tea" <nil>
}

// By name, as a program does that does not have the workflow.
func ExampleClient_StartTx() {
	s := openWarehouse(packing)
	defer s.close()
	ctx := context.Background()
	s.order("ord-1", func(tx *sql.Tx) error {
		run, err := s.engine.StartTx(ctx, tx, "pack", []byte(`"ord-1"`), perdure.ID("ord-1"))
		if err == nil {
			fmt.Println("new:", run.New())
		}
		return err
	})
	_, err := Note.Send(ctx, s.engine, "ord-1", "tea")
	fmt.Println(err)
	s.result("ord-1")
	// Output:
	// new: true
	// <nil>
	// "ord-1: tea" <nil>
}

// The run hears of an order exactly if the order is there.
func ExampleSignal_SendTx() {
	s := openWarehouse(packing)
	defer s.close()
	ctx := context.Background()
	if _, err := pack.Start(ctx, s.engine, "box", perdure.ID("box")); err != nil {
		log.Fatal(err)
	}
	s.order("ord-1", func(tx *sql.Tx) error {
		_, err := Note.SendTx(ctx, s.engine, tx, "box", "ord-1")
		return err
	})
	s.result("box")
	// Output:
	// "box: ord-1" <nil>
}

func ExampleClient_SendTx() {
	s := openWarehouse(packing)
	defer s.close()
	ctx := context.Background()
	if _, err := pack.Start(ctx, s.engine, "box", perdure.ID("box")); err != nil {
		log.Fatal(err)
	}
	s.order("ord-1", func(tx *sql.Tx) error {
		_, err := s.engine.SendTx(ctx, tx, "box", Note.Name(), []byte(`"ord-1"`))
		return err
	})
	s.result("box")
	// Output:
	// "box: ord-1" <nil>
}

func ExampleSendWithStartTx() {
	s := openWarehouse(packing)
	defer s.close()
	s.order("ord-1", func(tx *sql.Tx) error {
		d, err := perdure.SendWithStartTx(context.Background(), s.engine, tx, Note, "ord-1", pack, "box", perdure.ID("box"))
		fmt.Println("started a run:", d.New)
		return err
	})
	s.result("box")
	// Output:
	// started a run: true
	// "box: ord-1" <nil>
}
